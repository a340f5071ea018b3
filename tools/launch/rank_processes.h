// Starts the ranks of a job as processes of this machine, shows what they say, and ends them all when one ends badly.
//
// Each rank is this same program, executed anew with RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT in
// its environment, in a process group of its own, and dies with the process that started it. Their standard outputs are this one's;
// their standard errors go through a LogRelay.
//
// Note: How a job ends. When a rank ends badly the others have two seconds to notice and say so, are then told to end (SIGTERM), and
// are killed after two more. A SIGINT or SIGTERM to this process is handed on; ranks then have ten seconds; a second one kills them.
// No process is left, waited for or not.
//
// Example:
//   return RunRankProcesses({.ranks = 2, .arguments = {"--stage=3", "--store=file:/tmp/x/store"}, .name = "train"});
#pragma once

#include <string>
#include <vector>

namespace zeroshard::tools {

struct RankProcessesOptions {
  int ranks = 2;
  std::vector<std::string> arguments;  // of each rank, after the program's name
  std::string name = "zeroshard";      // of the program, for messages
};

// Set in the environment of ranks that this launcher started: "live" where somebody looks at progress, else "plain".
inline constexpr char kRelayVariable[] = "ZEROSHARD_RELAY";

// The exit code of the job: 0 if every rank's was; 130 or 143 if this process was interrupted; else that of the rank that ended first
// by its own fault, whose reason is the last line on the standard error.
int RunRankProcesses(const RankProcessesOptions& options);

}  // namespace zeroshard::tools

// Starts the ranks of a job as processes, of this machine or of others over ssh, shows what they say, and ends them all when one ends
// badly.
//
// Each rank is started by a RankSpawner (rank_spawner.h), in a process group of its own, and dies with the process that started it.
// Their standard errors go through a LogRelay; their standard outputs are this one's, or go through one too.
//
// Note: How a job ends. When a rank ends badly the others have two seconds to notice and say so, are then told to end (SIGTERM), and
// are killed after two more. A SIGINT or SIGTERM to this process is handed on; ranks then have ten seconds; a second one kills them.
// No process is left, waited for or not.
//
// Example:
//   return RunRankProcesses({.ranks = 2, .arguments = {"--stage=3"}, .name = "train"});
#pragma once

#include "zeroshard/tools/launch/rank_spawner.h"

namespace zeroshard::tools {

// The exit code of the job: 0 if every rank's was; 130 or 143 if this process was interrupted; else that of the rank that ended first
// by its own fault (blame.h), whose reason is the last line on the standard error.
int RunRankProcesses(const RankProcessesOptions& options);

}  // namespace zeroshard::tools

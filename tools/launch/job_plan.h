// What a job of N ranks is, before a rank is started: whoever starts them, a launcher outside, this process by executing itself, or threads.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(JobPlan plan, PlanJob({.backend = "gloo", .nproc = 2, .name = "train", .arguments = arguments}));
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "zeroshard/comm/backend_registry.h"
#include "zeroshard/comm/launch_environment.h"
#include "zeroshard/comm/port_range.h"
#include "zeroshard/tools/launch/visible_gpus.h"

namespace zeroshard::tools {

struct JobOptions {
  std::string backend = "gloo";
  std::string device = "auto";          // "cpu", "cuda"; auto: cuda with nccl, else cpu
  std::optional<int> nproc = {};        // where it was asked for; else the visible GPUs, or kDefaultRanks
  std::string store = {};               // "file:PATH", "tcp:HOST:PORT"; empty: as the launcher's variables say
  std::string bind = {};                // where to listen; empty: no wider than the job needs
  comm::PortRange ports = {};           // at which to listen; none: any
  std::string token_file = {};          // empty: see meeting.h
  std::vector<std::string> hosts = {};  // where to start nproc ranks each, over ssh; empty: here
  std::string ssh = "ssh";
  int threads = 0;                                     // of a rank; 0: cores / ranks on this machine
  comm::Reduction reduction = comm::Reduction::kTree;  // of nccl
  bool share_gpu = false;                              // ranks of this machine may share its GPUs
  absl::Duration timeout = absl::Minutes(5);
  std::string name = "zeroshard";           // of the tool
  std::vector<std::string> arguments = {};  // its command line, after the name
};

struct JobPlan {
  enum class Kind {
    kOneRank,    // this process is one rank
    kThreads,    // its threads are the ranks
    kProcesses,  // it starts the ranks
  };
  Kind kind = Kind::kOneRank;
  int rank = 0;
  int world_size = 1;
  comm::LaunchEnvironment launch;  // of kOneRank
  int threads = 1;                 // of a rank
  VisibleGpus gpus;                // of this machine; none: not looked at
  bool relayed = false;            // this process was started by RunJob, which has checked the input, and shows what it says
  JobOptions options;              // with `device` decided

  bool on_gpus() const { return options.device == "cuda"; }
};

inline constexpr int kDefaultRanks = 2;

// Errors: kInvalidArgument: the launcher's environment, a backend that is not built in, nproc against the launcher's world size, a
// missing or unknown store, each with the remedy; kFailedPrecondition, with --device=cuda: why no GPU can be used, or too few.
absl::StatusOr<JobPlan> PlanJob(const JobOptions& options);

}  // namespace zeroshard::tools

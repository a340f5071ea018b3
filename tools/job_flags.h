// Flags of every tool that runs ranks: which backend, how many, where they meet.
//
// Example:
//   JobFlags job;
//   job.Register(flags);
//   ZS_RETURN_IF_ERROR(flags.Parse(argc - 1, argv + 1).status());
//   ZS_ASSIGN_OR_RETURN(JobPlan plan, job.Plan(flags, "train", argc, argv));
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "zeroshard/tools/flags/flag_set.h"
#include "zeroshard/tools/launch/job_plan.h"

namespace zeroshard::tools {

class JobFlags {
 public:
  void Register(FlagSet& flags);

  // After flags.Parse. `name`: of the tool. `reduction`: what --reduction=auto is. Errors: as PlanJob.
  absl::StatusOr<JobPlan> Plan(const FlagSet& flags, const std::string& name, int argc, const char* const* argv,
                               comm::Reduction reduction = comm::Reduction::kTree) const;

 private:
  std::string backend_ = "gloo";
  std::string device_ = "auto";
  std::string reduction_ = "auto";
  bool share_gpu_ = false;
  int64_t nproc_ = kDefaultRanks;
  std::string hosts_, ssh_ = "ssh", store_, bind_, port_range_, token_file_;
  int64_t threads_ = 0;
  double timeout_s_ = 300;
};

}  // namespace zeroshard::tools

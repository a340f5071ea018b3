// Runs a job of N ranks, as it was planned (job_plan.h).
//
// Example:
//   ZS_ASSIGN_OR_RETURN(JobPlan plan, PlanJob({.backend = "gloo", .nproc = 2, .name = "train", .arguments = arguments}));
//   ... check everything that depends on plan.world_size ...
//   return RunJob(plan, [&](comm::Communicator& communicator) -> absl::StatusOr<int> { ...; return kExitDone; });
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/comm/communicator.h"
#include "zeroshard/device/device.h"
#include "zeroshard/tools/launch/job_plan.h"

namespace zeroshard::tools {

// What one rank does; gives the rank's exit code. An error ends the job, and so does what it throws.
using RankBody = std::function<absl::StatusOr<int>(comm::Communicator& communicator)>;

// Whether a rank's device is good for the work: asked when it is made, before the rank speaks to another. An error is why not to start.
using DeviceCheck = std::function<absl::Status(device::Device& device, int rank)>;

// Runs the job to its end, and gives the exit code of this process. Why a job failed is the last line on the standard error.
int RunJob(const JobPlan& plan, RankBody body, DeviceCheck check = {});

}  // namespace zeroshard::tools

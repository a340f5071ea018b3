// Whether a training job can fit into the memory that is there: asked before ranks are started, and of each rank's GPU before it speaks to
// another.
//
// Example:
//   if (const absl::Status fits = CheckMemory(plan, options.run); !fits.ok()) return Refuse(fits);
//   RunJob(plan, body, [&](device::Device& device, int rank) { return CheckCard(plan, options.run, device, rank); });
#pragma once

#include "absl/status/status.h"
#include "zeroshard/device/device.h"
#include "zeroshard/tools/launch/job.h"
#include "zeroshard/trainer/training_run.h"

namespace zeroshard::tools {

// This machine's memory for those of its ranks that are known, and the whole memory of their GPUs. Errors: as trainer::CheckRoom.
absl::Status CheckMemory(const JobPlan& plan, const trainer::RunOptions& run);

// What of the rank's GPU others have left. Errors: as trainer::CheckRoom.
absl::Status CheckCard(const JobPlan& plan, const trainer::RunOptions& run, device::Device& device, int rank);

}  // namespace zeroshard::tools

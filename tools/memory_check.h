// Whether a job can fit into the memory that is there: asked before ranks are started, and of each rank's GPU before it speaks to
// another.
//
// Example:
//   if (const absl::Status fits = CheckMemory(plan, options.run); !fits.ok()) return Refuse(fits);
//   RunJob(plan, body, [&](device::Device& device, int rank) { return CheckCard(plan, options.run, device, rank); });
#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "zeroshard/device/device.h"
#include "zeroshard/tools/launch/job_plan.h"
#include "zeroshard/trainer/memory_room.h"
#include "zeroshard/trainer/training_run.h"

namespace zeroshard::tools {

// What a plan's ranks find, by its backend and device.
trainer::Surroundings SurroundingsOf(const JobPlan& plan);

// Whether a room suffices for the ranks that share it. An error is why not.
using RoomCheck = absl::FunctionRef<absl::Status(const trainer::Room& room)>;

// Asks of this machine's memory for those of its ranks that are known, and of the whole memory of their GPUs. Errors: `fits`'s first.
absl::Status CheckRooms(const JobPlan& plan, RoomCheck fits);
// Asks of what others have left of the rank's GPU, what its own device has taken already among it. Errors: `fits`'s.
absl::Status CheckCardRoom(device::Device& device, int rank, RoomCheck fits);

// The same of a training run. Errors: as trainer::CheckRoom.
absl::Status CheckMemory(const JobPlan& plan, const trainer::RunOptions& run);
absl::Status CheckCard(const JobPlan& plan, const trainer::RunOptions& run, device::Device& device, int rank);

}  // namespace zeroshard::tools

// Whether a job can fit into the memory that is there: asked before ranks are started, and of each rank's GPU before it speaks to
// another.
//
// Example:
//   const RunCheck check{plan, options.run};
//   if (const absl::Status fits = CheckRooms(plan, check); !fits.ok()) return Refuse(fits);
//   RunJob(plan, body, [&](device::Device& device, int rank) { return CheckCardRoom(device, rank, check); });
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

// The RoomCheck of a training run, or of what else is done with its model. What it refers to outlives it. Errors: as trainer::CheckRoom.
struct RunCheck {
  const JobPlan& plan;
  const trainer::RunOptions& run;
  trainer::EvaluationSize evaluation = {};
  trainer::RoomWork work = trainer::RoomWork::kTraining;

  absl::Status operator()(const trainer::Room& room) const;
};

}  // namespace zeroshard::tools

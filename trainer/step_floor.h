// The floor of a training step: how long its products and its attention take by themselves, back to back on the rank's device.
//
// They are the model's own, run by the model itself on a device that leaves out all else (device/products_alone.h): the same shapes,
// dtypes, epilogues, algorithms and order. Wall time from one Synchronize to the next, micro-batches of a step together.
//
// (model/product_floor.h is another floor: of one core, in processor time, and of attention by plain products.)
//
// Example:
//   ZS_ASSIGN_OR_RETURN(StepFloor floor, MeasureStepFloor(communicator, options.run, /*steps=*/20));
//   double share = floor.s_median / summary.step_s_median;
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "zeroshard/comm/communicator.h"
#include "zeroshard/trainer/training_run.h"

namespace zeroshard::trainer {

struct StepFloor {
  double s_median = 0;  // of this rank; without the first two steps where there are more, as a run's
  double s_min = 0;
  int64_t steps = 0;
  int64_t tokens = 0;  // of a step, all ranks together
  device::DType dtype = device::DType::kFloat32;
};

// Collective; all ranks measure at once, each on a full micro-batch, whatever its last rows are. Takes the memory of a run of stage 0
// without an optimizer. Errors: as TrainingRun::Create.
absl::StatusOr<StepFloor> MeasureStepFloor(comm::Communicator& communicator, const RunOptions& options, int64_t steps);

// One line of JSON: "floor_s_median", "floor_s_min", "floor_tokens_per_s", and of what.
std::string FormatStepFloor(const StepFloor& floor, const comm::Communicator& communicator);

}  // namespace zeroshard::trainer

// Says what has gone wrong in a run whose losses or gradients are no numbers any more: which rank, which tensor.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(std::string words, DescribeNonFinite(*run));
//   // "rank 1's part of the loss is nan; parameter 'transformer.wte.weight' [2048, 256] holds 17 values that are not finite"
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "zeroshard/trainer/training_run.h"

namespace zeroshard::trainer {

// Collective, after a Step: looks at each rank's loss, then at the parameters, then at the gradients of that step, in unit order.
// Errors: the communicator's.
absl::StatusOr<std::string> DescribeNonFinite(TrainingRun& run);

}  // namespace zeroshard::trainer

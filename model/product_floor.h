// The floor of a micro-batch on one core: the processor time of its matrix products alone, each on data in memory, nothing else; operands
// and results of options.dtype.
//
// Every linear layer and the head forward, and both gradients; attention over the whole square, without the saving of causality. A
// model whose loss is computed in blocks that stay in the cache may come close to it, and past it in the head.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(double seconds, ProductFloorSeconds(*device, options));
#pragma once

#include "absl/status/statusor.h"
#include "zeroshard/device/device.h"
#include "zeroshard/model/gpt_options.h"

namespace zeroshard::model {

// Errors: as Device::PlanGemm and Allocate.
absl::StatusOr<double> ProductFloorSeconds(device::Device& device, const GptOptions& options);

}  // namespace zeroshard::model

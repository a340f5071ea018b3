// How fast this machine multiplies matrices, by a short product: what a run's speed is held against.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(double flops_per_s, MeasureProductPeak(device));
#pragma once

#include "absl/status/statusor.h"
#include "zeroshard/device/device.h"

namespace zeroshard::trainer {

// The best of a few fp32 products of 768 x 768 x 768 on this device, with its own number of threads; about 50 ms. Its memory is
// given back. Errors: those of planning and allocating.
absl::StatusOr<double> MeasureProductPeak(device::Device& device);

}  // namespace zeroshard::trainer

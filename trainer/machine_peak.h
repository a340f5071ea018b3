// How fast this machine multiplies matrices: what a run's speed is held against.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(double flops_per_s, ProductPeak(device, dtype));
#pragma once

#include "absl/status/statusor.h"
#include "zeroshard/device/device.h"

namespace zeroshard::trainer {

// What the device's maker says of products of `dtype` (Device::PeakFlops). Where nobody does, the best of a few fp32 products of 768 x 768
// x 768 on this device, with its own number of threads: about 50 ms, and memory that is given back. Errors: those of planning and
// allocating.
absl::StatusOr<double> ProductPeak(device::Device& device, device::DType dtype);

}  // namespace zeroshard::trainer

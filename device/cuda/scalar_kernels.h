// The one-thread kernel that derives a step's scalars on a CUDA stream (device/step_scalars.h). Square roots are IEEE's; cosines, powers
// and logarithms are the device's, within 2 ulp of fp64.
//
// Example:
//   cudaError_t error = DeriveScalars(stream, sum, rule, std::nullopt, scalars);
#pragma once

#include <cuda_runtime_api.h>

#include <optional>

#include "zeroshard/device/array.h"
#include "zeroshard/device/step_scalars.h"

namespace zeroshard::device::cuda {

cudaError_t DeriveScalars(cudaStream_t stream, const Array& sum, const StepRule& rule, std::optional<double> learning_rate,
                          const Array& scalars);

}  // namespace zeroshard::device::cuda

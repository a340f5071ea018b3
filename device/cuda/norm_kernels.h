// The exact norm's kernels (device/step_kernels.h) on a CUDA stream: the same bits as device/cpu's (powers other than 1 and 2: what
// the device's pow gives).
//
// Each answers the launch's error. Arrays are checked by the caller (cuda_step_kernels.h).
//
// Example:
//   cudaError_t error = AddPowers(stream, gradients, pieces, 2, sum);
#pragma once

#include <cuda_runtime_api.h>

#include "zeroshard/device/array.h"
#include "zeroshard/device/pieces.h"

namespace zeroshard::device::cuda {

// One launch each.
cudaError_t AddPowers(cudaStream_t stream, const Array& x, const Pieces<Plain>& pieces, double p, const Array& sum);
cudaError_t MaxMagnitude(cudaStream_t stream, const Array& x, const Pieces<int>& pieces, const Array& largest);

}  // namespace zeroshard::device::cuda

// GELU's kernels (device/transformer_kernels.h) on a CUDA stream: the same bits as device/cpu's.
//
// Each queues at most one kernel and answers the launch's error. Arrays are checked by the caller (cuda_transformer_kernels.h).
//
// Example:
//   cudaError_t error = Gelu(stream, x, y);
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "zeroshard/device/array.h"

namespace zeroshard::device::cuda {

cudaError_t Gelu(cudaStream_t stream, const Array& x, const Array& y);
cudaError_t GeluBackward(cudaStream_t stream, const Array& x, const Array& d, const Array& partials, int64_t width);

}  // namespace zeroshard::device::cuda

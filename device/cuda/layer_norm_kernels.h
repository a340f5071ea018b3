// The layer norm's kernels (device/transformer_kernels.h) on a CUDA stream: the same bits as device/cpu's.
//
// Each queues at most one kernel and answers the launch's error. Arrays are checked by the caller (cuda_transformer_kernels.h).
//
// Example:
//   cudaError_t error = LayerNormOutput(stream, normalized, weight, bias, y);
#pragma once

#include <cuda_runtime_api.h>

#include "zeroshard/device/array.h"
#include "zeroshard/device/transformer_kernels.h"

namespace zeroshard::device::cuda {

cudaError_t LayerNorm(cudaStream_t stream, const Array& x, const Array& weight, const Array& bias, const Array& normalized,
                      const Array& inverse_deviation, const Array& y);
cudaError_t LayerNormOutput(cudaStream_t stream, const Array& normalized, const Array& weight, const Array& bias,
                            const Array& y);

struct LayerNormGradient {
  Array d_y;
  Array normalized;
  Array inverse_deviation;
  Array weight;
  Array d_x;
  Array rounded;  // or empty
  LayerNormPartials partials;
};
cudaError_t LayerNormBackward(cudaStream_t stream, const LayerNormGradient& arrays, WriteMode mode);

}  // namespace zeroshard::device::cuda

// The layer norm's kernels (device/transformer_kernels.h) on a CUDA stream: the same bits as device/cpu's.
//
// Each queues at most one kernel and answers the launch's error. Arrays are checked by the caller (cuda_transformer_kernels.h).
//
// Example:
//   cudaError_t error = LayerNorm(stream, x, weight, bias, normalized, inverse_deviation, y);
#pragma once

#include <cuda_runtime_api.h>

#include "zeroshard/device/array.h"
#include "zeroshard/device/transformer_kernels.h"

namespace zeroshard::device::cuda {

cudaError_t LayerNorm(cudaStream_t stream, const Array& x, const Array& weight, const Array& bias, const Array& normalized,
                      const Array& inverse_deviation, const Array& y);

struct LayerNormGradient {
  Array d_y;
  Array normalized;
  Array inverse_deviation;
  Array weight;
  Array d_x;
  LayerNormPartials partials;
  LayerNormForProducts products;
};
cudaError_t LayerNormBackward(cudaStream_t stream, const LayerNormGradient& arrays, WriteMode mode);

}  // namespace zeroshard::device::cuda

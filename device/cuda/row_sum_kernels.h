// Sums over the rows of a matrix on a CUDA stream (TransformerKernels::SumRows): the same bits as device/cpu's.
//
// Example:
//   const RowSum sums[] = {{partials.weight, d_weight, WriteMode::kOverwrite}, {partials.bias, d_bias, WriteMode::kOverwrite}};
//   cudaError_t error = SumRows(stream, sums);
#pragma once

#include <cuda_runtime_api.h>

#include <span>

#include "zeroshard/device/transformer_kernels.h"

namespace zeroshard::device::cuda {

// One launch; arrays are checked by the caller (cuda_transformer_kernels.h).
cudaError_t SumRows(cudaStream_t stream, std::span<const RowSum> sums);

}  // namespace zeroshard::device::cuda

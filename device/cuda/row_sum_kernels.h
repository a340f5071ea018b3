// Sums over the rows of a matrix on a CUDA stream (TransformerKernels::SumRows): the same bits as device/cpu's.
//
// Example:
//   cudaError_t error = SumRows(stream, partials, d_bias, WriteMode::kOverwrite);
#pragma once

#include <cuda_runtime_api.h>

#include "zeroshard/device/array.h"
#include "zeroshard/device/transformer_kernels.h"

namespace zeroshard::device::cuda {

cudaError_t SumRows(cudaStream_t stream, const Array& x, const Array& sum, WriteMode mode);

}  // namespace zeroshard::device::cuda

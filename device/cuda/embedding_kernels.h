// The embedding's kernels (device/transformer_kernels.h) on a CUDA stream: the same bits as device/cpu's, without atomics.
//
// Each answers the launch's error. Arrays are checked by the caller (cuda_transformer_kernels.h).
//
// Example:
//   cudaError_t error = Embed(stream, tokens, table, positions, x);
#pragma once

#include <cuda_runtime_api.h>

#include "zeroshard/device/array.h"
#include "zeroshard/device/transformer_kernels.h"

namespace zeroshard::device::cuda {

cudaError_t Embed(cudaStream_t stream, const Array& tokens, const Array& table, const Array& positions, const Array& x);
cudaError_t EmbedTokensBackward(cudaStream_t stream, const Array& tokens, const Array& d_x, const Array& d_table,
                                WriteMode mode);
cudaError_t EmbedPositionsBackward(cudaStream_t stream, const Array& d_x, const Array& d_positions, WriteMode mode);

}  // namespace zeroshard::device::cuda

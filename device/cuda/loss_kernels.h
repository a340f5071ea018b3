// The loss by columns of the vocabulary (device/transformer_kernels.h) on a CUDA stream: device/cpu's bits but for what fp64's exp and log
// give, which on a GPU are within 1 ulp.
//
// Each queues at most one kernel and answers the launch's error. Arrays are checked by the caller (cuda_transformer_kernels.h).
//
// Example:
//   cudaError_t error = LossSum(stream, rows, loss);
#pragma once

#include <cuda_runtime_api.h>

#include "zeroshard/device/array.h"
#include "zeroshard/device/transformer_kernels.h"

namespace zeroshard::device::cuda {

cudaError_t LossExponentials(cudaStream_t stream, VocabularyColumns columns, const LossRows& rows, const Array& logits,
                             const Array& exponentials, const Array& block_maximum);
cudaError_t LossGradient(cudaStream_t stream, VocabularyColumns columns, const LossRows& rows, const Array& block_maximum,
                         float scale, const Array& exponentials, const Array& loss_scale);
cudaError_t LossSum(cudaStream_t stream, const LossRows& rows, const Array& loss);

}  // namespace zeroshard::device::cuda

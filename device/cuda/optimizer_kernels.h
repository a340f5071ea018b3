// The optimizers' passes (device/step_kernels.h) on a CUDA stream: the same bits as device/cpu's.
//
// Each answers the launch's error. Arrays are checked by the caller (cuda_step_kernels.h).
//
// Example:
//   cudaError_t error = Adam(stream, pieces, {.gradients = g, .scalars = s, .weights = w, .first = m, .second = v});
#pragma once

#include <cuda_runtime_api.h>

#include "zeroshard/device/array.h"
#include "zeroshard/device/pieces.h"
#include "zeroshard/device/step_kernels.h"

namespace zeroshard::device::cuda {

struct PassArrays {
  Array gradients = {};   // [n] fp32, bf16 or fp16
  Array scalars = {};     // [sizeof(StepScalars)] uint8
  Array weights = {};     // [n] fp32, as the next two
  Array first = {};       // exp_avg, or momentum_buffer: empty is momentum 0
  Array second = {};      // exp_avg_sq
  Array write_back = {};  // [n] bf16 or fp16, or empty
};

cudaError_t Adam(cudaStream_t stream, const Pieces<AdamPass>& pieces, const PassArrays& arrays);
cudaError_t Sgd(cudaStream_t stream, const Pieces<SgdPass>& pieces, const PassArrays& arrays);

// `words` is scratch of kExactSumWords int64, for this stream alone. Some launches, the last of which divides by the norm.
cudaError_t MuonDirection(cudaStream_t stream, const MuonPass& pass, const Array& gradients, const Array& scalars,
                          const Array& momentum_buffer, const Array& direction, const Array& words);
cudaError_t MuonPolynomial(cudaStream_t stream, const Array& a, const Array& a_squared, const Array& p);
cudaError_t MuonApply(cudaStream_t stream, const MuonPass& pass, const Array& direction, const Array& scalars,
                      const Array& weights, const Array& write_back);

}  // namespace zeroshard::device::cuda

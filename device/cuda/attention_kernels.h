// Causal attention (device/attention.h) by kernels of our own on a CUDA stream, in tiles in shared memory, without atomics: the same bits
// in every run. Scores, probabilities and sums are fp32; what is stored is rounded once.
//
// Against device/cpu, which multiplies by oneDNN and takes a row's softmax at once: within 2^-22 (context + head_width) of the largest
// value in fp32, beside the rounding of two-byte numbers.
//
// Example:
//   cudaError_t error = AttentionForward(stream, spec, qkv, out, log_sum_exp);
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "zeroshard/device/array.h"
#include "zeroshard/device/attention.h"

namespace zeroshard::device::cuda {

// Wider heads there are not.
inline constexpr int64_t kMostHeadWidth = 256;

// Bytes of scratch of AttentionBackward.
constexpr int64_t AttentionScratchBytes(const AttentionSpec& spec) {
  return spec.batch * spec.heads * spec.context * static_cast<int64_t>(sizeof(float));
}

// Arrays as in attention.h, of spec.dtype. cudaErrorInvalidValue for a head that is too wide.
cudaError_t AttentionForward(cudaStream_t stream, const AttentionSpec& spec, const Array& qkv, const Array& out,
                             const Array& log_sum_exp);

struct AttentionGradient {
  Array qkv;
  Array out;
  Array log_sum_exp;
  Array d_out;
  Array d_qkv;
  Array scratch;  // AttentionScratchBytes or more
};
// Three launches.
cudaError_t AttentionBackward(cudaStream_t stream, const AttentionSpec& spec, const AttentionGradient& arrays);

}  // namespace zeroshard::device::cuda

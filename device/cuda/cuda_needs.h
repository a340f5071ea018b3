// What device/cuda needs of a GPU's memory beside what is asked of it. Stands without CUDA: a process that starts ranks asks before it opens
// any of it. Linking it, whole, registers it for "cuda" (device_needs.h).
#pragma once

#include <cstdint>

#include "zeroshard/device/dtype.h"
#include "zeroshard/device/exact_sum.h"
#include "zeroshard/device/transformer_kernels.h"

namespace zeroshard::device::cuda {

// The words of Muon's norms, for each kind of stream.
inline constexpr int64_t kStepScratchBytes = 4 * kExactSumWords * static_cast<int64_t>(sizeof(int64_t));

// Of cuBLASLt: what NVIDIA recommends from sm_90 on. The choice of an algorithm depends on it, so it is one for all cards.
inline constexpr int64_t kProductWorkspaceBytes = int64_t{32} << 20;

// Reckoned for 132 multiprocessors and tiles of 128 x 256, not measured: the block's product is 1024 tiles in two bytes, and the product
// that gives the gradient of the weight has 192 for a width of 768, so that few multiprocessors are idle at the end of either; launches
// are a few for each 2048 rows; and of exponentials 0.4 GB are held for a vocabulary of 50257, the same bytes in every dtype. Rows lie
// 256 bytes or more apart, since tensor cores are fed by 16 bytes at a time: an odd vocabulary would go by 2.
constexpr LossBlocks CudaLossBlocks(DType dtype) {
  return {.rows = dtype == DType::kFloat32 ? 2048 : 4096, .columns = 8192, .stride_of = 128};
}

}  // namespace zeroshard::device::cuda

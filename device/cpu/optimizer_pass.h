// The arithmetic of the optimizers on host memory, by Highway, in fp32: gradients are widened as they are read, what is written
// back is rounded once. Every operation is an IEEE one (multiply-add, division, square root), so all vector widths, and bodies
// and tails, give the same bits.
//
// Example:
//   AdamFactors factors = MakeAdamFactors(pass, scalars);
//   AdamSpan(factors, {.gradients = g, .weights = w, .first = exp_avg, .second = exp_avg_sq}, 0, n);
#pragma once

#include <cstddef>

#include "zeroshard/device/dtype.h"
#include "zeroshard/device/optimizer_factors.h"

namespace zeroshard::device {

// What a pass reads and writes, [n] each; fp32 where no dtype is said.
struct PassArrays {
  DType gradient_dtype = DType::kFloat32;  // fp32, bf16 or fp16
  const void* gradients = nullptr;
  float* weights = nullptr;
  float* first = nullptr;                    // exp_avg, or momentum_buffer: null is momentum 0
  float* second = nullptr;                   // exp_avg_sq
  DType write_back_dtype = DType::kFloat32;  // bf16 or fp16 where there is one
  void* write_back = nullptr;                // the new weights, rounded, or null
};

// One step on n elements from `begin` on; see StepKernels::Adam and Sgd.
void AdamSpan(const AdamFactors& factors, const PassArrays& arrays, size_t begin, size_t n);
void SgdSpan(const SgdFactors& factors, const PassArrays& arrays, size_t begin, size_t n);

}  // namespace zeroshard::device

// The softmax cross entropy on host memory, some columns of the vocabulary at a time, for a range of rows. The same bits at
// every vector width. Exponentials are of `dtype`: fp32, bf16 or fp16.
//
// Example:
//   ExponentiateRows(block, 0, rows);     // for each block of columns, in order
//   GradientRows(gradient, 0, rows);      // then for each again
#pragma once

#include <cstdint>

#include "zeroshard/device/dtype.h"

namespace zeroshard::device {

// One block of columns, see TransformerKernels::LossExponentials.
struct LossBlock {
  int64_t first_column;
  int64_t columns;
  int64_t stride;  // from row to row
  const int32_t* targets;
  float* maximum;
  double* sum;
  float* target_logit;
  float* block_maximum;
  const float* logits;  // [rows, stride]
  DType dtype = DType::kFloat32;
  void* exponentials;  // [rows, stride], in fp32 perhaps the same
};
void ExponentiateRows(const LossBlock& block, int64_t first, int64_t last);

struct LossBlockGradient {
  int64_t first_column;
  int64_t columns;
  int64_t stride;
  const int32_t* targets;
  const float* maximum;
  const double* sum;
  const float* target_logit;
  const float* block_maximum;
  float scale;
  DType dtype = DType::kFloat32;
  void* exponentials;
};
void GradientRows(const LossBlockGradient& block, int64_t first, int64_t last);

}  // namespace zeroshard::device

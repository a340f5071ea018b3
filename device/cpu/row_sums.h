// Sums over the rows of a matrix on host memory, for a range of its columns. The same bits at every vector width. Matrix and
// sums are fp32, bf16 or fp16, each its own; sums are taken in fp32.
//
// Example:
//   SumRowsOfColumns({.rows = 1024, .width = 1152, .x = d_qkv, .sum = d_bias, .accumulate = false}, 0, 1152);
#pragma once

#include <cstdint>

#include "zeroshard/device/dtype.h"

namespace zeroshard::device {

// Ranges of columns that are added up at a time start on multiples of this.
inline constexpr int64_t kColumnsPerSum = 256;

struct RowSums {
  int64_t rows;
  int64_t width;
  DType x_dtype = DType::kFloat32;
  const void* x;  // [rows, width]
  DType sum_dtype = DType::kFloat32;
  void* sum;        // [width]
  bool accumulate;  // The sum is added to what is there.
};

// At most kColumnsPerSum columns: [first, last).
void SumRowsOfColumns(const RowSums& sums, int64_t first, int64_t last);

}  // namespace zeroshard::device

// Copies rows of a matrix from one place to another, converted: parts of larger matrices, made dense or put back.
//
// Example: the first 64 columns of a bf16 matrix [rows, 384], dense in fp32.
//   ConvertRows({DType::kBfloat16, x, 384}, {DType::kFloat32, y, 64}, rows, 64);
#pragma once

#include <cstdint>

#include "zeroshard/device/dtype.h"

namespace zeroshard::device {

// Where the first row starts, and how many elements lie from one start to the next.
struct RowsIn {
  DType dtype;
  const void* data;
  int64_t stride;
};
struct RowsOut {
  DType dtype;
  void* data;
  int64_t stride;
};

// [rows, width] elements, each rounded once. Floats.
void ConvertRows(const RowsIn& from, const RowsOut& to, int64_t rows, int64_t width);

}  // namespace zeroshard::device

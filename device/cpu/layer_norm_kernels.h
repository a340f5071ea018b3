// The layer norm on host memory, for a range of rows. The same bits at every vector width.
//
// Arrays that are void are of `dtype`: fp32, bf16 or fp16; arithmetic is done in fp32.
//
// Example:
//   LayerNormRows({.width = 384, .x = x, .weight = w, .bias = b, .normalized = h, .inverse_deviation = r, .y = y}, 0, rows);
#pragma once

#include <cstdint>

#include "zeroshard/device/dtype.h"

namespace zeroshard::device {

struct LayerNormForward {
  DType dtype = DType::kFloat32;
  int64_t width;
  const float* x;            // [rows, width]
  const void* weight;        // [width]
  const void* bias;          // [width]
  void* normalized;          // [rows, width]
  float* inverse_deviation;  // [rows]
  void* y;                   // [rows, width]
};
void LayerNormRows(const LayerNormForward& norm, int64_t first, int64_t last);

struct LayerNormGradient {
  DType dtype = DType::kFloat32;
  DType d_y_dtype = DType::kFloat32;  // fp32 or `dtype`
  int64_t width;
  const void* d_y;
  const void* normalized;
  const float* inverse_deviation;
  const void* weight;
  float* d_x;
  void* rounded;          // d_x in `dtype`, or null
  void* y;                // what LayerNormRows gave, or null
  const void* bias;       // read for y
  bool accumulate;        // d_x is added to
  float* partial_weight;  // [rows / kRowsPerPartial, width]: each kRowsPerPartial rows' sums
  float* partial_bias;
  float* partial_d_x;
};
// `first` is a multiple of kRowsPerPartial; the rows up to `last` fill one row of each partial.
void LayerNormBackwardRows(const LayerNormGradient& norm, int64_t first, int64_t last);

}  // namespace zeroshard::device

// The layer norm on host memory, for a range of rows. The same bits at every vector width.
//
// Example:
//   LayerNormRows({.width = 384, .x = x, .weight = w, .bias = b, .normalized = h, .inverse_deviation = r, .y = y}, 0, rows);
#pragma once

#include <cstdint>

namespace zeroshard::device {

struct LayerNormForward {
  int64_t width;
  const float* x;            // [rows, width]
  const float* weight;       // [width]
  const float* bias;         // [width]
  float* normalized;         // [rows, width]
  float* inverse_deviation;  // [rows]
  float* y;                  // [rows, width]
};
void LayerNormRows(const LayerNormForward& norm, int64_t first, int64_t last);

struct LayerNormAgain {
  int64_t width;
  const float* normalized;
  const float* weight;
  const float* bias;
  float* y;
};
void LayerNormOutputRows(const LayerNormAgain& norm, int64_t first, int64_t last);

struct LayerNormGradient {
  int64_t width;
  const float* d_y;
  const float* normalized;
  const float* inverse_deviation;
  const float* weight;
  float* d_x;
  bool accumulate;        // d_x is added to
  float* partial_weight;  // [rows / kRowsPerPartial, width]: each kRowsPerPartial rows' sums
  float* partial_bias;
  float* partial_d_x;
};
// `first` is a multiple of kRowsPerPartial; the rows up to `last` fill one row of each partial.
void LayerNormBackwardRows(const LayerNormGradient& norm, int64_t first, int64_t last);

}  // namespace zeroshard::device

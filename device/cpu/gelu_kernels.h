// GELU, in its tanh form, on host memory: x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3). The same bits at every vector
// width.
//
// Example:
//   GeluElements(x, y, rows * width);
#pragma once

#include <cstdint>

namespace zeroshard::device {

// y[n] = GELU(x[n]).
void GeluElements(const float* x, float* y, int64_t n);

// For rows of [width]: x becomes GELU(x), d becomes d GELU'(x), and sums [width] becomes the sum of d's rows.
void GeluBackwardRows(float* x, float* d, float* sums, int64_t rows, int64_t width);

}  // namespace zeroshard::device

// GELU, in its tanh form, on host memory: x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3). The same bits at every vector
// width. x, y and d are of `dtype`: fp32, bf16 or fp16; arithmetic is done in fp32.
//
// Example:
//   GeluElements(DType::kBfloat16, x, y, rows * width);
#pragma once

#include <cstdint>

#include "zeroshard/device/dtype.h"

namespace zeroshard::device {

// y[n] = GELU(x[n]).
void GeluElements(DType dtype, const void* x, void* y, int64_t n);

// For rows of [width]: x becomes GELU(x), d becomes d GELU'(x), and sums [width] becomes the sum of d's rows, before they are
// rounded.
void GeluBackwardRows(DType dtype, void* x, void* d, float* sums, int64_t rows, int64_t width);

}  // namespace zeroshard::device

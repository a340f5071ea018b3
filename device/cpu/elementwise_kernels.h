// The loops of the elementwise kernels over plain memory, compiled for each instruction set and chosen at run time.
//
// Vector bodies, tails and instruction sets give the same bits, those of convert.h's scalar arithmetic.
//
// Example:
//   AccumulateElements(DType::kBfloat16, x, DType::kFloat32, y, n);
#pragma once

#include <cstdint>

#include "zeroshard/device/dtype.h"

namespace zeroshard::device {

// y[i] = value, in y's type.
void FillElements(DType type, double value, void* y, int64_t count);
// y[i] = x[i], rounded once. Floats. x == y is allowed where both types have one size.
void ConvertElements(DType from, const void* x, DType to, void* y, int64_t count);
// y[i] += x[i] in y's wide type, rounded once. Floats.
void AccumulateElements(DType from, const void* x, DType to, void* y, int64_t count);
// y[i] *= factor in y's wide type, rounded once. Floats.
void ScaleElements(DType type, double factor, void* y, int64_t count);

}  // namespace zeroshard::device

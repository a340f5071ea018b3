// A planned product whose result goes through GELU, as a transformer's first linear layer after a norm has it:
//
//   X[m, n] = A[m, k] B[k, n] + bias[n],   Y = GELU(X)
//
// Both are kept: Y for the next product, X for backward. Each is rounded once to the output's dtype. Y is taken from X as it is stored,
// or, where the device does both in one kernel, from X before it is rounded.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(auto fc, device.PlanGeluGemm({.m = rows, .k = width, .n = 4 * width, .transpose_b = true, .bias = true}));
//   fc->Run(stream, x, weight, bias, before, after);
#pragma once

#include "zeroshard/device/array.h"
#include "zeroshard/device/gemm.h"
#include "zeroshard/device/stream.h"

namespace zeroshard::device {

class GeluGemm {
 public:
  virtual ~GeluGemm() = default;
  // Queues both. `bias` is empty unless the plan has one; x and y start on multiples of 16 bytes.
  virtual void Run(Stream& stream, In a, In b, In bias, Out x, Out y) = 0;
  // X alone, again: the same bits. `scratch`, of Y's size, is for devices that cannot do without Y.
  virtual void RunInput(Stream& stream, In a, In b, In bias, Out x, Out scratch) = 0;
};

}  // namespace zeroshard::device

// Writes the kinds of gradient that units share where their targets say; a target that is empty costs nothing.
//
// Example:
//   WriteRowSums(stream, {{partials.weight, targets[kNormWeight]}, {partials.bias, targets[kNormBias]}});
#pragma once

#include <cstddef>

#include "zeroshard/device/device.h"
#include "zeroshard/model/gradient_target.h"
#include "zeroshard/model/linear.h"

namespace zeroshard::model {

inline device::WriteMode ModeOf(const GradientTarget& target) {
  return target.accumulate ? device::WriteMode::kAccumulate : device::WriteMode::kOverwrite;
}

struct RowSumTarget {
  const device::Array& x;
  const GradientTarget& target;
};

// Each target (+)= the sum of the rows of its x, in one operation: they are short, and many.
template <size_t kCount>
void WriteRowSums(device::Stream& stream, const RowSumTarget (&wanted)[kCount]) {
  static_assert(kCount <= device::kMostRowSums);
  device::RowSum sums[kCount];
  size_t count = 0;
  for (const auto& [x, target] : wanted) {
    if (!target.array.empty()) sums[count++] = {x, target.array, ModeOf(target)};
  }
  if (count > 0) stream.device().transformer().SumRows(stream, {sums, count});
}

// target (+)= the gradient of the linear layer's matrix.
inline void WriteWeightGradient(device::Stream& stream, const Linear& linear, const device::Array& d_y,
                                const device::Array& x, const GradientTarget& target) {
  if (target.array.empty()) return;
  linear.WeightGradient(stream, d_y, x, target.array, ModeOf(target));
}

}  // namespace zeroshard::model

// Writes the kinds of gradient that units share where their targets say; a target that is empty costs nothing.
//
// Example:
//   WriteRowSums(stream, partials.weight, targets[kNormWeight]);
#pragma once

#include "zeroshard/device/device.h"
#include "zeroshard/model/gradient_target.h"
#include "zeroshard/model/linear.h"

namespace zeroshard::model {

inline device::WriteMode ModeOf(const GradientTarget& target) {
  return target.accumulate ? device::WriteMode::kAccumulate : device::WriteMode::kOverwrite;
}

// target (+)= the sum of the rows of x.
inline void WriteRowSums(device::Stream& stream, const device::Array& x, const GradientTarget& target) {
  if (target.array.empty()) return;
  stream.device().transformer().SumRows(stream, x, target.array, ModeOf(target));
}

// target (+)= the gradient of the linear layer's matrix.
inline void WriteWeightGradient(device::Stream& stream, const Linear& linear, const device::Array& d_y,
                                const device::Array& x, const GradientTarget& target) {
  if (target.array.empty()) return;
  linear.WeightGradient(stream, d_y, x, target.array, ModeOf(target));
}

}  // namespace zeroshard::model

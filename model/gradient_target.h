// Where a backward pass leaves one parameter's gradient. The engine hands it out, a model's backward fills it.
//
// Example:
//   if (!target.array.empty()) (target.accumulate ? add_plan : plan)->Run(stream, dy, x, target.array);
#pragma once

#include "zeroshard/device/array.h"

namespace zeroshard::model {

struct GradientTarget {
  device::Array array;      // [shape of the parameter]; empty: the parameter is frozen, nothing is computed
  bool accumulate = false;  // Add to what is there, in place of overwriting it.
};

}  // namespace zeroshard::model

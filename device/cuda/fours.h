// The grid of an elementwise kernel, and whether its arrays may be loaded four elements at a time (lanes.h).
//
// Example:
//   Launch<ScaleKernel<float>>(stream, GridForFours(y.elements()), Aligned({y}), factor, Updates<float>(y));
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "zeroshard/device/array.h"
#include "zeroshard/device/cuda/launch.h"

namespace zeroshard::device::cuda {

// Whether four elements of each array lie on what one load wants.
inline bool Aligned(std::initializer_list<Array> arrays) {
  return std::all_of(arrays.begin(), arrays.end(), [](const Array& a) {
    return a.address() % static_cast<uint64_t>(std::min<int64_t>(16, 4 * SizeOf(a.dtype()))) == 0;
  });
}

// One thread for each four of n elements.
inline Grid GridForFours(int64_t n) { return GridFor((n + 3) / 4); }

}  // namespace zeroshard::device::cuda

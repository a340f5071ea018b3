// Sizes that fill whole blocks.
//
// Example:
//   RoundUp(100, 64) == 128
#pragma once

#include <cstdint>

namespace zeroshard::device {

// The least multiple of `multiple` > 0 that is n >= 0 or more.
constexpr int64_t RoundUp(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

}  // namespace zeroshard::device

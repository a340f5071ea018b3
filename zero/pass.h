// Which way a unit is about to be run.
#pragma once

#include <cstdint>

namespace zeroshard::zero {

enum class Pass : uint8_t { kForward, kBackward };

}  // namespace zeroshard::zero

// How a reduction combines elements.
#pragma once

#include <cstdint>
#include <string_view>

namespace zeroshard::comm {

enum class ReduceOp : uint8_t {
  kSum,      // By the one tree over ranks: ((0+1)+(2+3))+((4+5)+(6+7)), an odd one out passing up unchanged.
  kAverage,  // That sum divided by the world size in fp32 (fp64 for fp64) before the rounding; floats only.
  kMax,      // NaN if any rank holds one.
  kMin,      // NaN if any rank holds one.
};

// "sum", "average", "max", "min".
constexpr std::string_view Name(ReduceOp op) {
  constexpr std::string_view kNames[] = {"sum", "average", "max", "min"};
  return kNames[static_cast<int>(op)];
}

}  // namespace zeroshard::comm

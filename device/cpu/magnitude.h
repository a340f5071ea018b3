// The largest magnitude among floats, by their bits: without the sign they are in the order of magnitudes, infinity above all numbers
// and NaNs above it. At the speed of memory.
//
// Example:
//   uint32_t bits = LargestMagnitude(x, n);             // bits > 0x7f800000: a NaN is among them
//   uint16_t narrow = LargestMagnitude(bf16_bits, n);   // of bf16 and fp16 alike
#pragma once

#include <cstddef>
#include <cstdint>

namespace zeroshard::device {

// 0 where n is 0.
uint32_t LargestMagnitude(const float* x, size_t n);
uint16_t LargestMagnitude(const uint16_t* x, size_t n);

}  // namespace zeroshard::device

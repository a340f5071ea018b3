// A sum of non-negative fp64 values without rounding: integer digits that cover all of fp64's range.
//
// Addition of integers is associative, so the value depends on no order, no shard boundary and no number of ranks. The words
// are int64 and ranks add them up by an all-reduce (sum) of kExactSumWords elements; after Normalize a digit is below 2^32,
// so the sum over 2^20 ranks stays below 2^52. All zero is the sum of nothing.
//
// Example:
//   int64_t sum[kExactSumWords] = {};
//   exact_sum::Add(sum, 1e300);
//   exact_sum::Add(sum, 1e-300);
//   exact_sum::Normalize(sum);
//   exact_sum::Value(sum);        // 1e300, rounded once
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "zeroshard/device/host_device.h"

namespace zeroshard::device {

// Digits of 32 bits: digit i counts in 2^(32 i - 1152). fp64's smallest value falls into digit 2, so that three digits hold
// 64 bits of any sum; the end at 2^1088 leaves room for 2^64 of fp64's largest.
inline constexpr int kExactSumDigits = 70;
inline constexpr int kExactSumLowestBit = -1152;
// The digits, and one word that counts what was not finite.
inline constexpr int kExactSumWords = kExactSumDigits + 1;

namespace exact_sum {

// A value as what it adds to three words from `first` on. What is not finite adds 1 to the last word.
struct Digits {
  int first;
  int64_t parts[3];
};

// Of `value` >= 0.
ZS_HOST_DEVICE inline Digits Split(double value) {
  const uint64_t bits = std::bit_cast<uint64_t>(value) & ~(uint64_t{1} << 63);
  const auto exponent = static_cast<int>(bits >> 52);
  uint64_t mantissa = bits & ((uint64_t{1} << 52) - 1);
  if (exponent == 0x7ff) return {kExactSumDigits - 2, {0, 0, 1}};
  if (exponent != 0) mantissa |= uint64_t{1} << 52;
  // The mantissa's lowest bit counts 2^(exponent - 1075), or 2^-1074 for subnormals.
  const auto position = static_cast<unsigned>((exponent == 0 ? 1 : exponent) - 1075 - kExactSumLowestBit);
  const unsigned shift = position % 32;
  const uint64_t low = (mantissa & 0xffffffffu) << shift;
  const uint64_t high = (mantissa >> 32) << shift;
  return {static_cast<int>(position / 32),
          {static_cast<int64_t>(low & 0xffffffffu), static_cast<int64_t>((low >> 32) + (high & 0xffffffffu)),
           static_cast<int64_t>(high >> 32)}};
}

// Adds `value` >= 0. Between two calls of Normalize at most 2^30 values are added. Inf and NaN are counted, not added.
ZS_HOST_DEVICE inline void Add(int64_t* words, double value) {
  const Digits digits = Split(value);
  for (int i = 0; i < 3; ++i) words[digits.first + i] += digits.parts[i];
}

// Carries, so that every digit but the last is in [0, 2^32).
ZS_HOST_DEVICE inline void Normalize(int64_t* words) {
  int64_t carry = 0;
  for (int i = 0; i + 1 < kExactSumDigits; ++i) {
    const int64_t digit = words[i] + carry;
    words[i] = digit & 0xffffffff;
    carry = digit >> 32;
  }
  words[kExactSumDigits - 1] += carry;
}

// How many of the values were not finite.
ZS_HOST_DEVICE inline int64_t NonFinite(const int64_t* words) { return words[kExactSumDigits]; }

// The sum of what is finite, rounded once to the nearest fp64, ties to even; infinity beyond fp64's range.
ZS_HOST_DEVICE inline double Value(const int64_t* words) {
  int64_t digits[kExactSumDigits];
  for (int i = 0; i < kExactSumDigits; ++i) digits[i] = words[i];
  Normalize(digits);
  int top = kExactSumDigits - 1;
  while (top > 2 && digits[top] == 0) --top;
  // The 64 highest bits, the lowest of which also says whether anything lies below them.
  const int spare = std::countl_zero(static_cast<uint32_t>(digits[top]));
  if (spare == 32) return 0;
  const auto third = static_cast<uint64_t>(digits[top - 2]);
  uint64_t window = ((static_cast<uint64_t>(digits[top]) << 32 | static_cast<uint64_t>(digits[top - 1])) << spare) |
                    (third << spare >> 32);
  bool rest = static_cast<uint32_t>(third << spare) != 0;
  for (int i = 0; i < top - 2; ++i) rest |= digits[i] != 0;
  window |= rest ? 1 : 0;
  return std::ldexp(static_cast<double>(window), kExactSumLowestBit + 32 * (top - 1) - spare);
}

}  // namespace exact_sum
}  // namespace zeroshard::device

// Scalar conversions between the two-byte floats and fp32, fp64: round to nearest even, subnormals exact, Inf kept, NaN
// quiet.
//
// A NaN keeps its sign and the upper bits of its payload. The vector kernels (elementwise.h) give these bits.
//
// Example:
//   Bfloat16 b = ToBfloat16(1.0f + 1.0f / 256);   // a tie: to even, 1.0
//   float f = ToFloat(b);
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "zeroshard/device/dtype.h"

namespace zeroshard::device {

constexpr float ToFloat(Bfloat16 x) { return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16); }

constexpr Bfloat16 ToBfloat16(float x) {
  uint32_t bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  bits += 0x7fffu + ((bits >> 16) & 1u);
  return {static_cast<uint16_t>(bits >> 16)};
}

constexpr float ToFloat(Float16 x) {
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000u) << 16;
  const uint32_t exponent = (x.bits >> 10) & 0x1fu;
  const uint32_t mantissa = x.bits & 0x3ffu;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24, exact in fp32
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  if (exponent == 0x1f) {
    const uint32_t quiet = mantissa != 0 ? 0x400000u : 0u;
    return std::bit_cast<float>(sign | 0x7f800000u | quiet | (mantissa << 13));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

constexpr Float16 ToFloat16(float x) {
  uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  bits &= 0x7fffffffu;
  if (bits > 0x7f800000u) return {static_cast<uint16_t>(sign | 0x7e00u | ((bits >> 13) & 0x1ffu))};
  if (bits >= 0x477ff000u) return {static_cast<uint16_t>(sign | 0x7c00u)};  // from 65520 on: Inf
  if (bits >= 0x38800000u) {                                                // normal
    bits += 0xfffu + ((bits >> 13) & 1u);
    return {static_cast<uint16_t>(sign | ((bits - 0x38000000u) >> 13))};
  }
  if (bits <= 0x33000000u) return {static_cast<uint16_t>(sign)};  // up to half of the smallest subnormal
  const uint32_t shift = 126 - (bits >> 23);
  const uint32_t mantissa = (bits & 0x7fffffu) | 0x800000u;
  const uint32_t rest = mantissa & ((1u << shift) - 1);
  const uint32_t half = 1u << (shift - 1);
  uint32_t rounded = mantissa >> shift;
  if (rest > half || (rest == half && (rounded & 1u))) ++rounded;
  return {static_cast<uint16_t>(sign | rounded)};
}

// `x` as fp32, rounded to odd: what is then rounded to two bytes is as if rounded once.
constexpr float ToFloatOdd(double x) {
  const float nearest = static_cast<float>(x);
  const double back = static_cast<double>(nearest);
  if (back == x || x != x) return nearest;
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  if (bits & 1u) return nearest;
  const bool away = (back > x) == (x > 0);  // rounded away from zero: step back to the odd neighbour
  bits += away ? ~0u : 1u;
  return std::bit_cast<float>(bits);
}

constexpr Bfloat16 ToBfloat16(double x) { return ToBfloat16(ToFloatOdd(x)); }
constexpr Float16 ToFloat16(double x) { return ToFloat16(ToFloatOdd(x)); }

// WideOf<T>: the type in which arithmetic on T is done. Widen and Narrow go there and back, rounding once.
template <class T>
struct WideOf {
  using type = T;
};
template <>
struct WideOf<Bfloat16> {
  using type = float;
};
template <>
struct WideOf<Float16> {
  using type = float;
};

template <class T>
constexpr typename WideOf<T>::type Widen(T x) {
  if constexpr (std::is_same_v<T, Bfloat16> || std::is_same_v<T, Float16>) {
    return ToFloat(x);
  } else {
    return x;
  }
}

template <class T, class Wide>
constexpr T Narrow(Wide x) {
  if constexpr (std::is_same_v<T, Bfloat16>) {
    return ToBfloat16(x);
  } else if constexpr (std::is_same_v<T, Float16>) {
    return ToFloat16(x);
  } else {
    return static_cast<T>(x);
  }
}

}  // namespace zeroshard::device

// e^x in fp32 by IEEE operations alone: the bits of device/cpu's kernels (lanes16-inl.h), on a GPU and on its doubles alike.
//
// Example:
//   const float e = Exponential(score - maximum);
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "zeroshard/device/cuda/launch.h"

namespace zeroshard::device::cuda {

ZS_DEVICE float Clamped(float x) {
#if defined(__CUDACC__)
  asm("min.NaN.f32 %0, %0, 0f42b00000;" : "+f"(x));
  asm("max.NaN.f32 %0, %0, 0fc2ae999a;" : "+f"(x));
  return x;
#else
  x = 88.0f < x ? 88.0f : x;
  return -87.3f > x ? -87.3f : x;
#endif
}

// Within 1.5 ulp; x is held to [-87.3, 88]; a NaN stays one.
ZS_DEVICE float Exponential(float x) {
  x = Clamped(x);
  // The nearest whole number n is in the last bits of what has no others; instructions that convert are slower.
  constexpr float kNoFraction = 12582912.0f;  // 1.5 x 2^23
  const float shifted = x * 1.44269504f + kNoFraction, n = shifted - kNoFraction;
  // ln 2 in two parts (Cody and Waite), then a polynomial of e^r on [-ln 2 / 2, ln 2 / 2] (Cephes' expf).
  float r = fmaf(-n, 0.693359375f, x);
  r = fmaf(-n, -2.12194440e-4f, r);
  float p = 1.9875691500e-4f;
  p = fmaf(p, r, 1.3981999507e-3f);
  p = fmaf(p, r, 8.3334519073e-3f);
  p = fmaf(p, r, 4.1665795894e-2f);
  p = fmaf(p, r, 1.6666665459e-1f);
  p = fmaf(p, r, 5.0000001201e-1f);
  p = fmaf(r * r, p, r + 1.0f);
  // Times 2^n, by its exponent's bits.
  return p * std::bit_cast<float>((std::bit_cast<uint32_t>(shifted) << 23) + (127u << 23));
}

}  // namespace zeroshard::device::cuda

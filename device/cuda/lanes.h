// What a thread of an elementwise kernel works on at a time: four neighbouring elements where all arrays are aligned to four, in one
// load and one store each, else one. Loads widen bf16 and fp16 to fp32, stores round once, with the bits of convert.h.
//
// Example: y = 2 x.
//   ForLanes(t, y.n, aligned, [&](auto lanes, int64_t i) {
//     auto v = Load<lanes()>(x, i);
//     for (auto& element : v.v) element *= 2;
//     Store(v, y, i);
//   });
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "zeroshard/device/convert.h"
#include "zeroshard/device/cuda/launch.h"

// Before a loop over registers, which have no addresses: all copies of its body. Before one whose body is large: so many.
#if defined(__CUDACC__)
#define ZS_UNROLL _Pragma("unroll")
#define ZS_UNROLL_BY(copies) _Pragma(ZS_UNROLL_WORDS(unroll copies))
#define ZS_UNROLL_WORDS(words) #words
#else
#define ZS_UNROLL
#define ZS_UNROLL_BY(copies)
#endif

namespace zeroshard::device::cuda {

// As Widen and Narrow of convert.h, bit for bit, but for a NaN, of which a GPU has one of its own. There an instruction does it, for two
// elements where it can.
template <class T>
ZS_DEVICE typename WideOf<T>::type WidenUniformly(T x) {
  return Widen(x);
}
template <class T, class Wide>
ZS_DEVICE T NarrowUniformly(Wide x) {
  return Narrow<T>(x);
}

#if defined(__CUDACC__)
template <>
__device__ __forceinline__ float WidenUniformly(Float16 x) {
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x.bits));
  return wide;
}
template <>
__device__ __forceinline__ Float16 NarrowUniformly(float x) {
  Float16 rounded;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(rounded.bits) : "f"(x));
  return rounded;
}
template <>
__device__ __forceinline__ Bfloat16 NarrowUniformly(float x) {
  Bfloat16 rounded;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(rounded.bits) : "f"(x));
  return rounded;
}
#endif

// Neighbouring elements in the type in which arithmetic is done.
template <class Wide, int kLanes>
struct Lanes {
  Wide v[kLanes];
};

// The same as they are stored.
template <class T, int kLanes>
struct alignas(kLanes * sizeof(T) < 16 ? kLanes * sizeof(T) : 16) Stored {
  T v[kLanes];
};

// x[i, i + kLanes); aligned to a Stored where kLanes > 1.
template <int kLanes, class Array>
ZS_DEVICE auto LoadAsIs(const Array& x, int64_t i) {
  using T = std::remove_cvref_t<decltype(x[0])>;
  [[maybe_unused]] const T& last = x[static_cast<size_t>(i + kLanes - 1)];
  return *reinterpret_cast<const Stored<T, kLanes>*>(&x[static_cast<size_t>(i)]);
}
template <class T, int kLanes, class Array>
ZS_DEVICE void StoreAsIs(const Stored<T, kLanes>& stored, const Array& y, int64_t i) {
  [[maybe_unused]] const T& last = y[static_cast<size_t>(i + kLanes - 1)];
  *reinterpret_cast<Stored<T, kLanes>*>(&y[static_cast<size_t>(i)]) = stored;
}

// The same widened, and rounded.
template <int kLanes, class Array>
ZS_DEVICE auto Load(const Array& x, int64_t i) {
  const auto stored = LoadAsIs<kLanes>(x, i);
  Lanes<typename WideOf<std::remove_cvref_t<decltype(x[0])>>::type, kLanes> lanes;
  for (int j = 0; j < kLanes; ++j) lanes.v[j] = WidenUniformly(stored.v[j]);
  return lanes;
}
#if defined(__CUDACC__)
// The first in the lower half.
template <class T>
__device__ __forceinline__ uint32_t NarrowTwo(float first, float second) {
  uint32_t both;
  if constexpr (std::is_same_v<T, Bfloat16>) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
  }
  return both;
}
template <class T, int kLanes, std::enable_if_t<sizeof(T) == 2 && kLanes % 2 == 0, int> = 0>
__device__ __forceinline__ Stored<T, kLanes> NarrowAll(const Lanes<float, kLanes>& lanes) {
  struct Pairs {
    uint32_t v[kLanes / 2];
  } pairs;
  for (int j = 0; j < kLanes / 2; ++j) pairs.v[j] = NarrowTwo<T>(lanes.v[2 * j], lanes.v[2 * j + 1]);
  return std::bit_cast<Stored<T, kLanes>>(pairs);
}
#endif
template <class T, int kLanes, class Wide>
ZS_DEVICE Stored<T, kLanes> NarrowAll(const Lanes<Wide, kLanes>& lanes) {
  Stored<T, kLanes> stored;
  for (int j = 0; j < kLanes; ++j) stored.v[j] = NarrowUniformly<T>(lanes.v[j]);
  return stored;
}
template <class Wide, int kLanes, class Array>
ZS_DEVICE void Store(const Lanes<Wide, kLanes>& lanes, const Array& y, int64_t i) {
  using T = std::remove_reference_t<decltype(y[0])>;
  StoreAsIs(NarrowAll<T>(lanes), y, i);
}

// body(integral_constant<int, lanes>, i) for all of [0, n), spread over the threads of the grid; kLanes: of the aligned ones.
template <int kLanes = 4, class Body>
ZS_DEVICE void ForLanes(const Thread& t, int64_t n, bool aligned, const Body& body) {
  const auto global = static_cast<int64_t>(t.Global()), stride = static_cast<int64_t>(t.Stride());
  const int64_t whole = aligned ? n / kLanes * kLanes : 0;
  for (int64_t i = kLanes * global; i < whole; i += kLanes * stride) body(std::integral_constant<int, kLanes>(), i);
  for (int64_t i = whole + global; i < n; i += stride) body(std::integral_constant<int, 1>(), i);
}

// The same as a phase of a block.
template <class Body>
ZS_DEVICE void ForLanes(Block& b, int64_t n, bool aligned, const Body& body) {
  b.ForEachThread([&](unsigned t) { ForLanes(Thread{b.index(), t, b.blocks(), b.threads()}, n, aligned, body); });
}

}  // namespace zeroshard::device::cuda

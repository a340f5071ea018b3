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

// As Widen and Narrow of convert.h, bit for bit. Those branch by what a fp16 number is, and threads of a warp that go different ways go
// one after the other; these choose among results.
template <class T>
ZS_DEVICE typename WideOf<T>::type WidenUniformly(T x) {
  return Widen(x);
}
ZS_DEVICE float WidenUniformly(Float16 x) {
  const uint32_t magnitude = static_cast<uint32_t>(x.bits & 0x7fffu) << 13;
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000u) << 16;
  // The exponent counts from 127 - 15 on; what is subnormal becomes normal, exactly.
  const uint32_t finite = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  const uint32_t other = magnitude | 0x7f800000u | (magnitude > 0x0f800000u ? 0x400000u : 0u);
  return std::bit_cast<float>(sign | (magnitude >= 0x0f800000u ? other : finite));
}
template <class T, class Wide>
ZS_DEVICE T NarrowUniformly(Wide x) {
  if constexpr (std::is_same_v<T, Float16> && std::is_same_v<Wide, float>) {
    const uint32_t bits = std::bit_cast<uint32_t>(x), magnitude = bits & 0x7fffffffu;
    const uint32_t normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
    // fp16's subnormals count in 2^-24, as the last bit of a fp32 number from 0.5 on does: the addition rounds.
    const uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
    const uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x1ffu);
    uint32_t result = magnitude < 0x38800000u ? subnormal : normal;
    result = magnitude >= 0x477ff000u ? 0x7c00u : result;  // from 65520 on: Inf
    result = magnitude > 0x7f800000u ? nan : result;
    return {static_cast<uint16_t>(((bits >> 16) & 0x8000u) | result)};
  } else {
    return Narrow<T>(x);
  }
}

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
template <class Wide, int kLanes, class Array>
ZS_DEVICE void Store(const Lanes<Wide, kLanes>& lanes, const Array& y, int64_t i) {
  using T = std::remove_reference_t<decltype(y[0])>;
  Stored<T, kLanes> stored;
  for (int j = 0; j < kLanes; ++j) stored.v[j] = NarrowUniformly<T>(lanes.v[j]);
  StoreAsIs(stored, y, i);
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

// Sixteen fp32 lanes, as one AVX-512 vector or two AVX2 vectors: the unit in which the transformer's kernels load, compute,
// add up and store, so that every instruction set gives the same bits. Included once for each target, after
// foreach_target.h.
//
// A row's rest of fewer than 16 is loaded with zeros beside it and stored without them: rest and body give the same bits
// too. Loads widen bf16 and fp16, stores round them once (wide-inl.h).
//
// Example: the sum of a row.
//   F16 sum = Zero();
//   ForLanes(n, [&](int64_t i, auto part) ZS_LANES { sum = Add(sum, Load(x + i, part)); });
//   float total = SumOfLanes(sum);
#if defined(ZEROSHARD_DEVICE_CPU_LANES16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ZEROSHARD_DEVICE_CPU_LANES16_INL_H_
#undef ZEROSHARD_DEVICE_CPU_LANES16_INL_H_
#else
#define ZEROSHARD_DEVICE_CPU_LANES16_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "hwy/highway.h"
#include "zeroshard/device/convert.h"
#include "zeroshard/device/cpu/wide-inl.h"

// After a lambda's parameters: compiled for the target, into its caller.
#undef ZS_LANES
#define ZS_LANES HWY_ATTR __attribute__((always_inline))

HWY_BEFORE_NAMESPACE();
namespace zeroshard::device {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;
using M = hn::Mask<D>;
// A two-byte float.
template <class T>
concept Narrow16 = std::is_same_v<T, Bfloat16> || std::is_same_v<T, Float16>;
// All sixteen lanes, or the first `count` of them.
struct Full {};
struct Part {
  size_t count;
};

#if HWY_CAP_GE512

struct F16 {
  V lo;
};

// op on each vector of the arguments.
template <class Op, class... Args>
HWY_INLINE HWY_ATTR F16 Each(Op op, const Args&... args) {
  return F16{op(args.lo...)};
}
HWY_INLINE HWY_ATTR F16 Set(float x) { return F16{hn::Set(D(), x)}; }
HWY_INLINE HWY_ATTR F16 Load(const float* p, Full) { return F16{hn::LoadU(D(), p)}; }
HWY_INLINE HWY_ATTR F16 Load(const float* p, Part part) { return F16{hn::MaskedLoad(hn::FirstN(D(), part.count), D(), p)}; }
template <Narrow16 T>
HWY_INLINE HWY_ATTR F16 Load(const T* p, Full) {
  return F16{LoadWide(D(), p)};
}
HWY_INLINE HWY_ATTR void Store(F16 x, float* p, Full) { hn::StoreU(x.lo, D(), p); }
template <Narrow16 T>
HWY_INLINE HWY_ATTR void Store(F16 x, T* p, Full) {
  StoreNarrow(x.lo, D(), p);
}
HWY_INLINE HWY_ATTR void Store(F16 x, float* p, Part part) { hn::BlendedStore(x.lo, hn::FirstN(D(), part.count), D(), p); }
// x in the first `count` lanes, y in the others.
HWY_INLINE HWY_ATTR F16 Select(size_t count, F16 x, F16 y) {
  return F16{hn::IfThenElse(hn::FirstN(D(), count), x.lo, y.lo)};
}

using D8 = hn::CappedTag<float, 8>;
HWY_INLINE HWY_ATTR hn::Vec<D8> SumOfHalves(F16 x) { return hn::Add(hn::LowerHalf(D8(), x.lo), hn::UpperHalf(D8(), x.lo)); }
HWY_INLINE HWY_ATTR float MaxOfLanes(F16 x) { return hn::GetLane(hn::MaxOfLanes(D(), x.lo)); }

#else  // two vectors of eight

struct F16 {
  V lo, hi;
};

template <class Op, class... Args>
HWY_INLINE HWY_ATTR F16 Each(Op op, const Args&... args) {
  return F16{op(args.lo...), op(args.hi...)};
}
HWY_INLINE HWY_ATTR F16 Set(float x) { return F16{hn::Set(D(), x), hn::Set(D(), x)}; }
HWY_INLINE HWY_ATTR M FirstOfLow(size_t count) { return hn::FirstN(D(), count < 8 ? count : 8); }
HWY_INLINE HWY_ATTR M FirstOfHigh(size_t count) { return hn::FirstN(D(), count < 8 ? 0 : count - 8); }
HWY_INLINE HWY_ATTR F16 Load(const float* p, Full) { return F16{hn::LoadU(D(), p), hn::LoadU(D(), p + 8)}; }
HWY_INLINE HWY_ATTR F16 Load(const float* p, Part part) {
  return F16{hn::MaskedLoad(FirstOfLow(part.count), D(), p), hn::MaskedLoad(FirstOfHigh(part.count), D(), p + 8)};
}
template <Narrow16 T>
HWY_INLINE HWY_ATTR F16 Load(const T* p, Full) {
  return F16{LoadWide(D(), p), LoadWide(D(), p + 8)};
}
HWY_INLINE HWY_ATTR void Store(F16 x, float* p, Full) {
  hn::StoreU(x.lo, D(), p);
  hn::StoreU(x.hi, D(), p + 8);
}
template <Narrow16 T>
HWY_INLINE HWY_ATTR void Store(F16 x, T* p, Full) {
  StoreNarrow(x.lo, D(), p);
  StoreNarrow(x.hi, D(), p + 8);
}
HWY_INLINE HWY_ATTR void Store(F16 x, float* p, Part part) {
  hn::BlendedStore(x.lo, FirstOfLow(part.count), D(), p);
  hn::BlendedStore(x.hi, FirstOfHigh(part.count), D(), p + 8);
}
HWY_INLINE HWY_ATTR F16 Select(size_t count, F16 x, F16 y) {
  return F16{hn::IfThenElse(FirstOfLow(count), x.lo, y.lo), hn::IfThenElse(FirstOfHigh(count), x.hi, y.hi)};
}

using D8 = D;
HWY_INLINE HWY_ATTR V SumOfHalves(F16 x) { return hn::Add(x.lo, x.hi); }
HWY_INLINE HWY_ATTR float MaxOfLanes(F16 x) { return hn::GetLane(hn::MaxOfLanes(D(), hn::Max(x.lo, x.hi))); }

#endif  // HWY_CAP_GE512

template <Narrow16 T>
HWY_INLINE HWY_ATTR F16 Load(const T* p, Part part) {
  T padded[16] = {};
  std::memcpy(padded, p, part.count * sizeof(T));
  return Load(padded, Full{});
}
template <Narrow16 T>
HWY_INLINE HWY_ATTR void Store(F16 x, T* p, Part part) {
  T padded[16];
  Store(x, padded, Full{});
  std::memcpy(p, padded, part.count * sizeof(T));
}
// x as T would hold it.
template <class T>
HWY_INLINE HWY_ATTR F16 Rounded(F16 x) {
  return Each([](V v) ZS_LANES { return RoundTo(T(), D(), v); }, x);
}

HWY_INLINE HWY_ATTR F16 Zero() { return Set(0.0f); }
HWY_INLINE HWY_ATTR F16 OnlyPart(F16 x, F16, Full) { return x; }
// x where the part has lanes, `rest` beside them.
HWY_INLINE HWY_ATTR F16 OnlyPart(F16 x, F16 rest, Part part) { return Select(part.count, x, rest); }

HWY_INLINE HWY_ATTR F16 Add(F16 a, F16 b) {
  return Each([](V x, V y) ZS_LANES { return hn::Add(x, y); }, a, b);
}
HWY_INLINE HWY_ATTR F16 Sub(F16 a, F16 b) {
  return Each([](V x, V y) ZS_LANES { return hn::Sub(x, y); }, a, b);
}
HWY_INLINE HWY_ATTR F16 Mul(F16 a, F16 b) {
  return Each([](V x, V y) ZS_LANES { return hn::Mul(x, y); }, a, b);
}
HWY_INLINE HWY_ATTR F16 Div(F16 a, F16 b) {
  return Each([](V x, V y) ZS_LANES { return hn::Div(x, y); }, a, b);
}
// a b + c, rounded once.
HWY_INLINE HWY_ATTR F16 MulAdd(F16 a, F16 b, F16 c) {
  return Each([](V x, V y, V z) ZS_LANES { return hn::MulAdd(x, y, z); }, a, b, c);
}
// c - a b, rounded once.
HWY_INLINE HWY_ATTR F16 NegMulAdd(F16 a, F16 b, F16 c) {
  return Each([](V x, V y, V z) ZS_LANES { return hn::NegMulAdd(x, y, z); }, a, b, c);
}
// a b - c, rounded once.
HWY_INLINE HWY_ATTR F16 MulSub(F16 a, F16 b, F16 c) {
  return Each([](V x, V y, V z) ZS_LANES { return hn::MulSub(x, y, z); }, a, b, c);
}
// The greater; b where either is NaN, as x86 has it.
HWY_INLINE HWY_ATTR F16 Max(F16 a, F16 b) {
  return Each([](V x, V y) ZS_LANES { return hn::Max(x, y); }, a, b);
}
HWY_INLINE HWY_ATTR F16 Min(F16 a, F16 b) {
  return Each([](V x, V y) ZS_LANES { return hn::Min(x, y); }, a, b);
}

// e^x, within 1.5 ulp; x is held to [-87.3, 88]; a NaN stays one.
HWY_INLINE HWY_ATTR V ExpOfVector(V x) {
  const D d;
  x = hn::Max(hn::Set(d, -87.3f), hn::Min(hn::Set(d, 88.0f), x));
  const V n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504f)));
  // ln 2 in two parts (Cody and Waite), then a polynomial of e^r on [-ln 2 / 2, ln 2 / 2] (Cephes' expf).
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  V p = hn::Set(d, 1.9875691500e-4f);
  p = hn::MulAdd(p, r, hn::Set(d, 1.3981999507e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 8.3334519073e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 4.1665795894e-2f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.6666665459e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 5.0000001201e-1f));
  p = hn::MulAdd(hn::Mul(r, r), p, hn::Add(r, hn::Set(d, 1.0f)));
  // Times 2^n, by its exponent's bits.
  const hn::RebindToSigned<D> di;
  const auto exponent = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127)));
  return hn::Mul(p, hn::BitCast(d, exponent));
}
HWY_INLINE HWY_ATTR F16 Exp(F16 a) {
  return Each([](V x) ZS_LANES { return ExpOfVector(x); }, a);
}

// The sum of the sixteen lanes by one fixed tree: halves are added, then quarters, and so on.
HWY_INLINE HWY_ATTR float SumOfLanes(F16 x) {
  const hn::CappedTag<float, 4> d4;
  const auto v = SumOfHalves(x);
  auto w = hn::Add(hn::LowerHalf(d4, v), hn::UpperHalf(d4, v));
  w = hn::Add(w, hn::Shuffle1032(w));
  w = hn::Add(w, hn::Shuffle2301(w));
  return hn::GetLane(w);
}

// body(i, Full{}) for each sixteen of n, then body(i, Part{rest}).
template <class Body>
HWY_INLINE HWY_ATTR void ForLanes(int64_t n, Body body) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) body(i, Full{});
  if (i < n) body(i, Part{static_cast<size_t>(n - i)});
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroshard::device
HWY_AFTER_NAMESPACE();

#endif  // ZEROSHARD_DEVICE_CPU_LANES16_INL_H_

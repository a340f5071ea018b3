// Vectors of the type in which arithmetic is done (fp32 for fp32, bf16 and fp16; else the type itself): loads that widen and
// stores that round once, with the bits of convert.h. Included once for each target, after foreach_target.h.
//
// Example:
//   const WideTag<Bfloat16> d;
//   StoreNarrow(hn::Add(LoadWide(d, x), LoadWide(d, y)), d, y);
#if defined(ZEROSHARD_DEVICE_CPU_WIDE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ZEROSHARD_DEVICE_CPU_WIDE_INL_H_
#undef ZEROSHARD_DEVICE_CPU_WIDE_INL_H_
#else
#define ZEROSHARD_DEVICE_CPU_WIDE_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "zeroshard/device/convert.h"

HWY_BEFORE_NAMESPACE();
namespace zeroshard::device {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using WideTag = hn::ScalableTag<typename WideOf<T>::type>;

template <class D>
HWY_INLINE hn::Vec<D> LoadWide(D d, const hn::TFromD<D>* from) {
  return hn::LoadU(d, from);
}
template <class D>
HWY_INLINE hn::Vec<D> LoadWide(D d, const Bfloat16* from) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(from));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, bits)));
}
template <class D>
HWY_INLINE hn::Vec<D> LoadWide(D d, const Float16* from) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::Rebind<hwy::float16_t, D> half;
  return hn::PromoteTo(d, hn::BitCast(half, hn::LoadU(d16, reinterpret_cast<const uint16_t*>(from))));
}

// v in the element type T, as what is stored: for the two-byte floats the bits of a vector half as long.
template <class D>
HWY_INLINE hn::Vec<D> NarrowTo(hn::TFromD<D>, D, hn::Vec<D> v) {
  return v;
}
// The bits of v as the nearest bf16 in the upper halves of lanes; the lower halves are left over.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> RoundedBits(D, hn::Vec<D> v) {
  const hn::RebindToUnsigned<D> d32;
  const auto bits = hn::BitCast(d32, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(d32, 0x7fff)));
  const auto quiet = hn::Or(bits, hn::Set(d32, 0x400000));
  return hn::IfThenElse(hn::RebindMask(d32, hn::IsNaN(v)), quiet, rounded);
}
template <class D>
HWY_INLINE hn::Vec<hn::Rebind<uint16_t, D>> NarrowTo(Bfloat16, D d, hn::Vec<D> v) {
  return hn::TruncateTo(hn::Rebind<uint16_t, D>(), hn::ShiftRight<16>(RoundedBits(d, v)));
}
template <class D>
HWY_INLINE hn::Vec<hn::Rebind<uint16_t, D>> NarrowTo(Float16, D, hn::Vec<D> v) {
  const hn::Rebind<hwy::float16_t, D> half;
  return hn::BitCast(hn::Rebind<uint16_t, D>(), hn::DemoteTo(half, v));
}

// v as the nearest value of the element type, still in fp32.
template <class D>
HWY_INLINE hn::Vec<D> RoundTo(hn::TFromD<D>, D, hn::Vec<D> v) {
  return v;
}
template <class D>
HWY_INLINE hn::Vec<D> RoundTo(Bfloat16, D d, hn::Vec<D> v) {
  return hn::BitCast(d, hn::And(RoundedBits(d, v), hn::Set(hn::RebindToUnsigned<D>(), 0xffff0000)));
}
template <class D>
HWY_INLINE hn::Vec<D> RoundTo(Float16, D d, hn::Vec<D> v) {
  return hn::PromoteTo(d, hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), v));
}

// What T's bits are stored as by a vector.
template <class T>
struct StoredAs {
  using type = T;
};
template <>
struct StoredAs<Bfloat16> {
  using type = uint16_t;
};
template <>
struct StoredAs<Float16> {
  using type = uint16_t;
};

template <class D, class T>
HWY_INLINE void StoreNarrow(hn::Vec<D> v, D d, T* to) {
  using Stored = typename StoredAs<T>::type;
  hn::StoreU(NarrowTo(T(), d, v), hn::Rebind<Stored, D>(), reinterpret_cast<Stored*>(to));
}
// The same past the cache; `to` is aligned to the bytes of a vector.
template <class D, class T>
HWY_INLINE void StreamNarrow(hn::Vec<D> v, D d, T* to) {
  using Stored = typename StoredAs<T>::type;
  hn::Stream(NarrowTo(T(), d, v), hn::Rebind<Stored, D>(), reinterpret_cast<Stored*>(to));
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroshard::device
HWY_AFTER_NAMESPACE();

#endif  // ZEROSHARD_DEVICE_CPU_WIDE_INL_H_

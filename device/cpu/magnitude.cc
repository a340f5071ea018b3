#include "zeroshard/device/cpu/magnitude.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/magnitude.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace zeroshard::device::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// T: the unsigned integer of the floats' size.
template <class T>
T LargestOf(const T* HWY_RESTRICT x, size_t n) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  constexpr T kMask = static_cast<T>(~(T{1} << (8 * sizeof(T) - 1)));
  const auto mask = hn::Set(d, kMask);
  auto even = hn::Zero(d);
  auto odd = hn::Zero(d);
  size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    even = hn::Max(even, hn::And(hn::LoadU(d, x + i), mask));
    odd = hn::Max(odd, hn::And(hn::LoadU(d, x + i + lanes), mask));
  }
  HWY_ALIGN T of_lanes[HWY_MAX_BYTES / sizeof(T)];
  hn::Store(hn::Max(even, odd), d, of_lanes);
  T largest = *std::max_element(of_lanes, of_lanes + lanes);
  for (; i < n; ++i) largest = std::max(largest, static_cast<T>(x[i] & kMask));
  return largest;
}

uint32_t Largest32(const float* x, size_t n) { return LargestOf(reinterpret_cast<const uint32_t*>(x), n); }
uint16_t Largest16(const uint16_t* x, size_t n) { return LargestOf(x, n); }

}  // namespace zeroshard::device::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroshard::device {

HWY_EXPORT(Largest32);
HWY_EXPORT(Largest16);

uint32_t LargestMagnitude(const float* x, size_t n) { return HWY_DYNAMIC_DISPATCH(Largest32)(x, n); }
uint16_t LargestMagnitude(const uint16_t* x, size_t n) { return HWY_DYNAMIC_DISPATCH(Largest16)(x, n); }

}  // namespace zeroshard::device
#endif

#include "zeroshard/device/cpu/block_sums.h"

#include <algorithm>
#include <cstddef>

#include "zeroshard/device/exact_sum.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/block_sums.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace zeroshard::device::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FourLanes = hn::FixedTag<double, 4>;

HWY_INLINE double AddFour(hn::Vec<FourLanes> v) {
  const hn::Half<FourLanes> half;
  const auto two = hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v));
  return hn::GetLane(two) + hn::GetLane(hn::Reverse(half, two));
}

#if HWY_CAP_GE512
HWY_INLINE double SquaresOfBlock(const float* HWY_RESTRICT x) {
  const hn::FixedTag<double, 8> d;
  const hn::Rebind<float, decltype(d)> d32;
  auto sum = hn::Zero(d);
  for (size_t i = 0; i < kNormBlock; i += 8) {
    const auto v = hn::PromoteTo(d, hn::LoadU(d32, x + i));
    sum = hn::MulAdd(v, v, sum);
  }
  const FourLanes four;
  return AddFour(hn::Add(hn::LowerHalf(four, sum), hn::UpperHalf(four, sum)));
}
#else
HWY_INLINE double SquaresOfBlock(const float* HWY_RESTRICT x) {
  const FourLanes d;
  const hn::Rebind<float, decltype(d)> d32;
  auto low = hn::Zero(d);
  auto high = hn::Zero(d);
  for (size_t i = 0; i < kNormBlock; i += 8) {
    const auto a = hn::PromoteTo(d, hn::LoadU(d32, x + i));
    const auto b = hn::PromoteTo(d, hn::LoadU(d32, x + i + 4));
    low = hn::MulAdd(a, a, low);
    high = hn::MulAdd(b, b, high);
  }
  return AddFour(hn::Add(low, high));
}
#endif

void SquaresOfBlocks(const float* x, size_t blocks, double* sums) {
  for (size_t b = 0; b < blocks; ++b) sums[b] = SquaresOfBlock(x + b * kNormBlock);
}

}  // namespace zeroshard::device::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroshard::device {

HWY_EXPORT(SquaresOfBlocks);

void SumSquaresOfBlocks(const float* x, size_t blocks, double* sums) {
  HWY_DYNAMIC_DISPATCH(SquaresOfBlocks)(x, blocks, sums);
}

void AddSquaresOfBlocks(const float* x, size_t count, int64_t* words) {
  constexpr size_t kBatch = 16;
  double sums[kBatch];
  const size_t blocks = count / kNormBlock;
  for (size_t b = 0; b < blocks; b += kBatch) {
    const size_t batch = std::min(kBatch, blocks - b);
    SumSquaresOfBlocks(x + b * kNormBlock, batch, sums);
    for (size_t i = 0; i < batch; ++i) exact_sum::Add(words, sums[i]);
  }
  const size_t whole = blocks * kNormBlock;
  if (whole == count) return;
  float last[kNormBlock] = {};
  std::copy(x + whole, x + count, last);
  SumSquaresOfBlocks(last, 1, sums);
  exact_sum::Add(words, sums[0]);
}

}  // namespace zeroshard::device
#endif

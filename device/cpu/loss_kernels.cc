#include "zeroshard/device/cpu/loss_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "zeroshard/device/convert.h"
#include "zeroshard/device/dtype_visitor.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/loss_kernels.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "zeroshard/device/cpu/lanes16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroshard::device {
namespace HWY_NAMESPACE {

HWY_INLINE HWY_ATTR float MaxOfRow(const float* x, int64_t n) {
  const F16 least = Set(-std::numeric_limits<float>::infinity());
  F16 a = least, b = least;
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    a = Max(a, Load(x + i, Full{}));
    b = Max(b, Load(x + i + 16, Full{}));
  }
  ForLanes(n - i, [&](int64_t j, auto part) ZS_LANES { a = Max(a, OnlyPart(Load(x + i + j, part), least, part)); });
  return MaxOfLanes(Max(a, b));
}

// What exponentials are stored times: fp16 has no small numbers.
template <class T>
constexpr float kStoredScale = std::is_same_v<T, Float16> ? 32768.0f : 1.0f;

template <class T>
void ExponentiateTyped(const LossBlock& block, int64_t first, int64_t last) {
  const int64_t n = block.columns;
  for (int64_t row = first; row < last; ++row) {
    const float* logits = block.logits + row * block.stride;
    T* exponentials = static_cast<T*>(block.exponentials) + row * block.stride;
    const bool anew = block.first_column == 0;
    const float before = anew ? -std::numeric_limits<float>::infinity() : block.maximum[row];
    const float maximum = std::max(before, MaxOfRow(logits, n));
    const int64_t target = block.targets[row] - block.first_column;
    if (target >= 0 && target < n) block.target_logit[row] = logits[target];
    const F16 shift = Set(maximum);
    F16 sum = Zero();
    ForLanes(n, [&](int64_t i, auto part) ZS_LANES {
      const F16 e = OnlyPart(Exp(Sub(Load(logits + i, part), shift)), Zero(), part);
      sum = Add(sum, e);
      Store(kStoredScale<T> == 1 ? e : Mul(e, Set(kStoredScale<T>)), exponentials + i, part);
    });
    const double so_far = anew ? 0.0 : block.sum[row];
    const double rescaled = before == maximum || anew ? so_far : so_far * std::exp(static_cast<double>(before) - maximum);
    block.sum[row] = rescaled + SumOfLanes(sum);
    block.maximum[row] = maximum;
    block.block_maximum[row] = maximum;
  }
}

void Exponentiate(const LossBlock& block, int64_t first, int64_t last) {
  VisitActivation(block.dtype, [&]<class T>(TypeTag<T>) { ExponentiateTyped<T>(block, first, last); });
}

template <class T>
void GradientTyped(const LossBlockGradient& block, int64_t first, int64_t last) {
  const int64_t n = block.columns;
  for (int64_t row = first; row < last; ++row) {
    T* e = static_cast<T*>(block.exponentials) + row * block.stride;
    const float scale = block.targets[row] < 0 ? 0.0f : block.scale;
    // The exponentials were taken against the maximum of this block's time.
    const float late = block.block_maximum[row] - block.maximum[row];
    const double adjusted = late == 0.0f ? 1.0 : std::exp(static_cast<double>(late));
    const F16 factor = Set(static_cast<float>(adjusted / block.sum[row] * scale / kStoredScale<T>));
    ForLanes(n, [&](int64_t i, auto part) ZS_LANES { Store(Mul(Load(e + i, part), factor), e + i, part); });
    const int64_t target = block.targets[row] - block.first_column;
    if (target < 0 || target >= n) continue;
    // From the logit: the stored exponential is rounded, and what is left beside 1 may be small.
    const double apart = static_cast<double>(block.target_logit[row]) - block.maximum[row];
    e[target] = Narrow<T>(static_cast<float>((std::exp(apart) / block.sum[row] - 1) * scale));
  }
}

void Gradient(const LossBlockGradient& block, int64_t first, int64_t last) {
  VisitActivation(block.dtype, [&]<class T>(TypeTag<T>) { GradientTyped<T>(block, first, last); });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroshard::device
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroshard::device {

HWY_EXPORT(Exponentiate);
HWY_EXPORT(Gradient);

void ExponentiateRows(const LossBlock& block, int64_t first, int64_t last) {
  HWY_DYNAMIC_DISPATCH(Exponentiate)(block, first, last);
}
void GradientRows(const LossBlockGradient& block, int64_t first, int64_t last) {
  HWY_DYNAMIC_DISPATCH(Gradient)(block, first, last);
}

}  // namespace zeroshard::device
#endif  // HWY_ONCE

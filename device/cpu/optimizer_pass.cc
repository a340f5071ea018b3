#include "zeroshard/device/cpu/optimizer_pass.h"

#include <cmath>
#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/optimizer_pass.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace zeroshard::device::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Calls at(d, i) for every vector of [0, n), then for every element of the tail.
template <class At>
HWY_INLINE void ForEachVector(size_t n, const At& at) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) at(d, i);
  for (; i < n; ++i) at(hn::CappedTag<float, 1>(), i);
}

template <bool kDecoupled>
void Adam(const AdamFactors& f, const float* HWY_RESTRICT gradients, float* HWY_RESTRICT weights,
          float* HWY_RESTRICT exp_avg, float* HWY_RESTRICT exp_avg_sq, size_t n) {
  ForEachVector(n, [&](auto d, size_t i) HWY_ATTR {
    const auto w = hn::LoadU(d, weights + i);
    auto g = hn::Mul(hn::LoadU(d, gradients + i), hn::Set(d, f.gradient_multiplier));
    if constexpr (!kDecoupled) g = hn::MulAdd(hn::Set(d, f.decay), w, g);
    auto m = hn::LoadU(d, exp_avg + i);
    auto v = hn::LoadU(d, exp_avg_sq + i);
    m = hn::MulAdd(hn::Set(d, f.one_minus_beta1), hn::Sub(g, m), m);
    v = hn::MulAdd(hn::Set(d, f.one_minus_beta2), hn::MulSub(g, g, v), v);
    hn::StoreU(m, d, exp_avg + i);
    hn::StoreU(v, d, exp_avg_sq + i);
    const auto u = hn::Div(m, hn::MulAdd(hn::Sqrt(v), hn::Set(d, f.root_scale), hn::Set(d, f.eps)));
    const auto step = hn::Set(d, f.step_size);
    if constexpr (kDecoupled) {
      // The small terms first: 1 - lr * weight_decay would round the decay away.
      hn::StoreU(hn::Sub(w, hn::MulAdd(hn::Set(d, f.decay), w, hn::Mul(step, u))), d, weights + i);
    } else {
      hn::StoreU(hn::NegMulAdd(step, u, w), d, weights + i);
    }
  });
}

void AdamDispatched(const AdamFactors& f, const float* gradients, float* weights, float* exp_avg, float* exp_avg_sq,
                    size_t n) {
  if (f.decoupled) return Adam<true>(f, gradients, weights, exp_avg, exp_avg_sq, n);
  Adam<false>(f, gradients, weights, exp_avg, exp_avg_sq, n);
}

template <bool kMomentum, bool kNesterov>
void Sgd(const SgdFactors& f, const float* HWY_RESTRICT gradients, float* HWY_RESTRICT weights,
         float* HWY_RESTRICT momentum_buffer, size_t n) {
  ForEachVector(n, [&](auto d, size_t i) HWY_ATTR {
    const auto w = hn::LoadU(d, weights + i);
    auto g = hn::Mul(hn::LoadU(d, gradients + i), hn::Set(d, f.gradient_multiplier));
    g = hn::MulAdd(hn::Set(d, f.decay), w, g);
    auto u = g;
    if constexpr (kMomentum) {
      const auto momentum = hn::Set(d, f.momentum);
      const auto b = hn::MulAdd(momentum, hn::LoadU(d, momentum_buffer + i), g);
      hn::StoreU(b, d, momentum_buffer + i);
      u = kNesterov ? hn::MulAdd(momentum, b, g) : b;
    }
    hn::StoreU(hn::NegMulAdd(hn::Set(d, f.step_size), u, w), d, weights + i);
  });
}

void SgdDispatched(const SgdFactors& f, const float* gradients, float* weights, float* momentum_buffer, size_t n) {
  if (momentum_buffer == nullptr) return Sgd<false, false>(f, gradients, weights, momentum_buffer, n);
  if (f.nesterov) return Sgd<true, true>(f, gradients, weights, momentum_buffer, n);
  Sgd<true, false>(f, gradients, weights, momentum_buffer, n);
}

}  // namespace zeroshard::device::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroshard::device {

HWY_EXPORT(AdamDispatched);
HWY_EXPORT(SgdDispatched);

AdamFactors MakeAdamFactors(const AdamPass& pass, const StepScalars& scalars) {
  const double lr = scalars.learning_rate * pass.learning_rate_scale;
  return {.gradient_multiplier = static_cast<float>(scalars.gradient_multiplier),
          .one_minus_beta1 = static_cast<float>(1 - scalars.beta1),
          .one_minus_beta2 = static_cast<float>(1 - scalars.beta2),
          .eps = static_cast<float>(pass.eps),
          .step_size = static_cast<float>(lr / scalars.bias_correction1),
          .root_scale = static_cast<float>(1 / std::sqrt(scalars.bias_correction2)),
          .decay = static_cast<float>(pass.decoupled ? lr * pass.weight_decay : pass.weight_decay),
          .decoupled = pass.decoupled};
}

SgdFactors MakeSgdFactors(const SgdPass& pass, const StepScalars& scalars) {
  return {.gradient_multiplier = static_cast<float>(scalars.gradient_multiplier),
          .momentum = static_cast<float>(pass.momentum),
          .step_size = static_cast<float>(scalars.learning_rate * pass.learning_rate_scale),
          .decay = static_cast<float>(pass.weight_decay),
          .nesterov = pass.nesterov};
}

void AdamSpan(const AdamFactors& factors, const float* gradients, float* weights, float* exp_avg, float* exp_avg_sq,
              size_t n) {
  HWY_DYNAMIC_DISPATCH(AdamDispatched)(factors, gradients, weights, exp_avg, exp_avg_sq, n);
}

void SgdSpan(const SgdFactors& factors, const float* gradients, float* weights, float* momentum_buffer, size_t n) {
  HWY_DYNAMIC_DISPATCH(SgdDispatched)(factors, gradients, weights, momentum_buffer, n);
}

}  // namespace zeroshard::device
#endif

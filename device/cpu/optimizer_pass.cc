#include "zeroshard/device/cpu/optimizer_pass.h"

#include <cstddef>
#include <type_traits>

#include "zeroshard/device/dtype_visitor.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/optimizer_pass.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"
#include "zeroshard/device/cpu/wide-inl.h"

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

// The elements of PassArrays from `begin` on, typed; Narrow is float where nothing is written back.
template <class Gradient, class Narrow>
struct Typed {
  Typed(const PassArrays& a, size_t begin)
      : gradients(static_cast<const Gradient*>(a.gradients) + begin),
        weights(a.weights + begin),
        first(a.first == nullptr ? nullptr : a.first + begin),
        second(a.second == nullptr ? nullptr : a.second + begin),
        write_back(a.write_back == nullptr ? nullptr : static_cast<Narrow*>(a.write_back) + begin) {}

  template <class D>
  HWY_INLINE void StoreWeights(hn::Vec<D> w, D d, size_t i) const {
    hn::StoreU(w, d, weights + i);
    if constexpr (!std::is_same_v<Narrow, float>) StoreNarrow(w, d, write_back + i);
  }

  const Gradient* HWY_RESTRICT gradients;
  float* HWY_RESTRICT weights;
  float* HWY_RESTRICT first;
  float* HWY_RESTRICT second;
  Narrow* HWY_RESTRICT write_back;
};

// Calls run(Typed) with the arrays' types.
template <class Run>
void WithTypes(const PassArrays& arrays, size_t begin, const Run& run) {
  VisitActivation(arrays.gradient_dtype, [&]<class Gradient>(TypeTag<Gradient>) {
    const DType narrow = arrays.write_back == nullptr ? DType::kFloat32 : arrays.write_back_dtype;
    VisitActivation(narrow, [&]<class Narrow>(TypeTag<Narrow>) { run(Typed<Gradient, Narrow>(arrays, begin)); });
  });
}

template <bool kDecoupled, class Arrays>
void Adam(const AdamFactors& f, const Arrays& a, size_t n) {
  ForEachVector(n, [&](auto d, size_t i) HWY_ATTR {
    const auto w = hn::LoadU(d, a.weights + i);
    auto g = hn::Mul(LoadWide(d, a.gradients + i), hn::Set(d, f.gradient_multiplier));
    if constexpr (!kDecoupled) g = hn::MulAdd(hn::Set(d, f.decay), w, g);
    auto m = hn::LoadU(d, a.first + i);
    auto v = hn::LoadU(d, a.second + i);
    m = hn::MulAdd(hn::Set(d, f.one_minus_beta1), hn::Sub(g, m), m);
    v = hn::MulAdd(hn::Set(d, f.one_minus_beta2), hn::MulSub(g, g, v), v);
    hn::StoreU(m, d, a.first + i);
    hn::StoreU(v, d, a.second + i);
    const auto u = hn::Div(m, hn::MulAdd(hn::Sqrt(v), hn::Set(d, f.root_scale), hn::Set(d, f.eps)));
    const auto step = hn::Set(d, f.step_size);
    if constexpr (kDecoupled) {
      // The small terms first: 1 - lr * weight_decay would round the decay away.
      a.StoreWeights(hn::Sub(w, hn::MulAdd(hn::Set(d, f.decay), w, hn::Mul(step, u))), d, i);
    } else {
      a.StoreWeights(hn::NegMulAdd(step, u, w), d, i);
    }
  });
}

void AdamDispatched(const AdamFactors& f, const PassArrays& arrays, size_t begin, size_t n) {
  WithTypes(arrays, begin, [&](const auto& typed) {
    if (f.decoupled) return Adam<true>(f, typed, n);
    Adam<false>(f, typed, n);
  });
}

template <bool kMomentum, bool kNesterov, class Arrays>
void Sgd(const SgdFactors& f, const Arrays& a, size_t n) {
  ForEachVector(n, [&](auto d, size_t i) HWY_ATTR {
    const auto w = hn::LoadU(d, a.weights + i);
    auto g = hn::Mul(LoadWide(d, a.gradients + i), hn::Set(d, f.gradient_multiplier));
    g = hn::MulAdd(hn::Set(d, f.decay), w, g);
    auto u = g;
    if constexpr (kMomentum) {
      const auto momentum = hn::Set(d, f.momentum);
      const auto b = hn::MulAdd(momentum, hn::LoadU(d, a.first + i), g);
      hn::StoreU(b, d, a.first + i);
      u = kNesterov ? hn::MulAdd(momentum, b, g) : b;
    }
    a.StoreWeights(hn::NegMulAdd(hn::Set(d, f.step_size), u, w), d, i);
  });
}

void SgdDispatched(const SgdFactors& f, const PassArrays& arrays, size_t begin, size_t n) {
  WithTypes(arrays, begin, [&](const auto& typed) {
    if (typed.first == nullptr) return Sgd<false, false>(f, typed, n);
    if (f.nesterov) return Sgd<true, true>(f, typed, n);
    Sgd<true, false>(f, typed, n);
  });
}

}  // namespace zeroshard::device::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroshard::device {

HWY_EXPORT(AdamDispatched);
HWY_EXPORT(SgdDispatched);

void AdamSpan(const AdamFactors& factors, const PassArrays& arrays, size_t begin, size_t n) {
  HWY_DYNAMIC_DISPATCH(AdamDispatched)(factors, arrays, begin, n);
}

void SgdSpan(const SgdFactors& factors, const PassArrays& arrays, size_t begin, size_t n) {
  HWY_DYNAMIC_DISPATCH(SgdDispatched)(factors, arrays, begin, n);
}

}  // namespace zeroshard::device
#endif

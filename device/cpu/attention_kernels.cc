#include "zeroshard/device/cpu/attention_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "zeroshard/device/dtype_visitor.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/attention_kernels.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "zeroshard/device/cpu/lanes16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroshard::device {
namespace HWY_NAMESPACE {

template <class T>
void SoftmaxTyped(const CausalRows& block) {
  const F16 scale = Set(block.scale), least = Set(-std::numeric_limits<float>::infinity());
  for (int64_t row = 0; row < block.rows; ++row) {
    float* scores = block.scores + row * block.keys;
    T* probabilities = static_cast<T*>(block.probabilities) + row * block.keys;
    const int64_t seen = block.keys - block.rows + row + 1;
    F16 greatest = least;
    ForLanes(seen, [&](int64_t i, auto part)
                       ZS_LANES { greatest = Max(greatest, OnlyPart(Load(scores + i, part), least, part)); });
    const float maximum = MaxOfLanes(greatest) * block.scale;
    const F16 shift = Set(maximum);
    F16 sum = Zero();
    ForLanes(seen, [&](int64_t i, auto part) ZS_LANES {
      const F16 e = OnlyPart(Exp(MulSub(Load(scores + i, part), scale, shift)), Zero(), part);
      sum = Add(sum, e);
      Store(e, scores + i, part);
    });
    const float total = SumOfLanes(sum);
    block.log_sum_exp[row] = maximum + std::log(total);
    const F16 inverse = Set(1.0f / total);
    ForLanes(seen,
             [&](int64_t i, auto part) ZS_LANES { Store(Mul(Load(scores + i, part), inverse), probabilities + i, part); });
    std::fill(probabilities + seen, probabilities + block.keys, T{});
  }
}

void Softmax(const CausalRows& block) {
  VisitActivation(block.dtype, [&]<class T>(TypeTag<T>) { SoftmaxTyped<T>(block); });
}

template <class T>
void SoftmaxBackwardTyped(const CausalColumns& block) {
  const F16 scale = Set(block.scale);
  for (int64_t row = 0; row < block.rows; ++row) {
    // Whole sixteens that the row does not see, then those that it sees or part of which it sees.
    const int64_t unseen = row / 16 * 16, at = row * block.queries;
    T *probabilities = static_cast<T*>(block.probabilities) + at, *d_scores = static_cast<T*>(block.d_scores) + at;
    std::fill(probabilities, probabilities + unseen, T{});
    std::fill(d_scores, d_scores + unseen, T{});
    const float *log_sum_exp = block.log_sum_exp + unseen, *d_dot_out = block.d_dot_out + unseen;
    const float *scores = block.scores + at + unseen, *gradients = block.d_probabilities + at + unseen;
    probabilities += unseen;
    d_scores += unseen;
    ForLanes(block.queries - unseen, [&](int64_t i, auto part) ZS_LANES {
      F16 p = Exp(MulSub(Load(scores + i, part), scale, Load(log_sum_exp + i, part)));
      F16 d = Mul(Mul(p, scale), Sub(Load(gradients + i, part), Load(d_dot_out + i, part)));
      if (i == 0) {
        p = Select(static_cast<size_t>(row - unseen), Zero(), p);
        d = Select(static_cast<size_t>(row - unseen), Zero(), d);
      }
      Store(p, probabilities + i, part);
      Store(d, d_scores + i, part);
    });
  }
}

void SoftmaxBackward(const CausalColumns& block) {
  VisitActivation(block.dtype, [&]<class T>(TypeTag<T>) { SoftmaxBackwardTyped<T>(block); });
}

template <class T>
void ProductsTyped(const T* a, const T* b, int64_t stride, int64_t rows, int64_t width, float* dots) {
  for (int64_t row = 0; row < rows; ++row, a += stride, b += stride) {
    F16 sum = Zero();
    ForLanes(width, [&](int64_t i, auto part) ZS_LANES { sum = MulAdd(Load(a + i, part), Load(b + i, part), sum); });
    dots[row] = SumOfLanes(sum);
  }
}

void Products(DType dtype, const void* a, const void* b, int64_t stride, int64_t rows, int64_t width, float* dots) {
  VisitActivation(dtype, [&]<class T>(TypeTag<T>) {
    ProductsTyped(static_cast<const T*>(a), static_cast<const T*>(b), stride, rows, width, dots);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroshard::device
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroshard::device {

HWY_EXPORT(Softmax);
HWY_EXPORT(SoftmaxBackward);
HWY_EXPORT(Products);

void CausalSoftmax(const CausalRows& block) { HWY_DYNAMIC_DISPATCH(Softmax)(block); }
void CausalSoftmaxBackward(const CausalColumns& block) { HWY_DYNAMIC_DISPATCH(SoftmaxBackward)(block); }
void InnerProducts(DType dtype, const void* a, const void* b, int64_t stride, int64_t rows, int64_t width, float* dots) {
  HWY_DYNAMIC_DISPATCH(Products)(dtype, a, b, stride, rows, width, dots);
}

}  // namespace zeroshard::device
#endif  // HWY_ONCE

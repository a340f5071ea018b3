#include "zeroshard/device/cpu/layer_norm_kernels.h"

#include <algorithm>
#include <cmath>

#include "zeroshard/device/dtype_visitor.h"
#include "zeroshard/device/transformer_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/layer_norm_kernels.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "zeroshard/device/cpu/lanes16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroshard::device {
namespace HWY_NAMESPACE {

template <class T>
void ForwardTyped(const LayerNormForward& norm, int64_t first, int64_t last) {
  const int64_t width = norm.width;
  const float inverse_width = 1.0f / static_cast<float>(width);
  const T *const weight = static_cast<const T*>(norm.weight), *const bias = static_cast<const T*>(norm.bias);
  for (int64_t row = first; row < last; ++row) {
    const float* x = norm.x + row * width;
    F16 sum = Zero();
    ForLanes(width, [&](int64_t i, auto part) ZS_LANES { sum = Add(sum, Load(x + i, part)); });
    const F16 mean = Set(SumOfLanes(sum) * inverse_width);
    F16 squares = Zero();
    ForLanes(width, [&](int64_t i, auto part) ZS_LANES {
      const F16 away = OnlyPart(Sub(Load(x + i, part), mean), Zero(), part);
      squares = MulAdd(away, away, squares);
    });
    const float variance = SumOfLanes(squares) * inverse_width;
    const float inverse = 1.0f / std::sqrt(variance + kLayerNormEpsilon);
    norm.inverse_deviation[row] = inverse;
    const F16 scale = Set(inverse);
    T* normalized = static_cast<T*>(norm.normalized) + row * width;
    T* y = static_cast<T*>(norm.y) + row * width;
    ForLanes(width, [&](int64_t i, auto part) ZS_LANES {
      const F16 h = Rounded<T>(Mul(Sub(Load(x + i, part), mean), scale));
      Store(h, normalized + i, part);
      Store(MulAdd(h, Load(weight + i, part), Load(bias + i, part)), y + i, part);
    });
  }
}

void Forward(const LayerNormForward& norm, int64_t first, int64_t last) {
  VisitActivation(norm.dtype, [&]<class T>(TypeTag<T>) { ForwardTyped<T>(norm, first, last); });
}

// The sums over a row that its gradient needs, each over the width; the row's part of the sums over rows.
template <class T, class Gradient>
HWY_INLINE HWY_ATTR void SumRow(const LayerNormGradient& norm, const Gradient* d_y, const T* normalized, float* sum_weight,
                                float* sum_bias, float* mean, float* slope) {
  const T* const weight = static_cast<const T*>(norm.weight);
  F16 sum = Zero(), product = Zero();
  ForLanes(norm.width, [&](int64_t i, auto part) ZS_LANES {
    const F16 d = Load(d_y + i, part), h = Load(normalized + i, part);
    const F16 e = Mul(d, Load(weight + i, part));
    sum = Add(sum, e);
    product = MulAdd(e, h, product);
    Store(Add(Load(sum_bias + i, part), d), sum_bias + i, part);
    Store(MulAdd(d, h, Load(sum_weight + i, part)), sum_weight + i, part);
  });
  const float inverse_width = 1.0f / static_cast<float>(norm.width);
  *mean = SumOfLanes(sum) * inverse_width;
  *slope = SumOfLanes(product) * inverse_width;
}

// With e = d_y weight: d_x = (e - mean(e) - normalized mean(e normalized)) inverse_deviation.
template <class T, class Gradient>
void BackwardTyped(const LayerNormGradient& norm, int64_t first, int64_t last) {
  const int64_t width = norm.width, partial = first / kRowsPerPartial * width;
  float *sum_weight = norm.partial_weight + partial, *sum_bias = norm.partial_bias + partial;
  float* sum_d_x = norm.partial_d_x + partial;
  for (float* sums : {sum_weight, sum_bias, sum_d_x}) std::fill(sums, sums + width, 0.0f);
  const T *const weight = static_cast<const T*>(norm.weight), *const bias = static_cast<const T*>(norm.bias);
  const bool accumulate = norm.accumulate;
  for (int64_t row = first; row < last; ++row) {
    const Gradient* d_y = static_cast<const Gradient*>(norm.d_y) + row * width;
    const T* normalized = static_cast<const T*>(norm.normalized) + row * width;
    float* d_x = norm.d_x + row * width;
    T* rounded = norm.rounded == nullptr ? nullptr : static_cast<T*>(norm.rounded) + row * width;
    T* y = norm.y == nullptr ? nullptr : static_cast<T*>(norm.y) + row * width;
    float row_mean, row_slope;
    SumRow(norm, d_y, normalized, sum_weight, sum_bias, &row_mean, &row_slope);
    const F16 mean = Set(row_mean), slope = Set(row_slope), scale = Set(norm.inverse_deviation[row]);
    ForLanes(width, [&](int64_t i, auto part) ZS_LANES {
      const F16 h = Load(normalized + i, part), w = Load(weight + i, part);
      if (y != nullptr) Store(MulAdd(h, w, Load(bias + i, part)), y + i, part);
      const F16 e = Mul(Load(d_y + i, part), w);
      F16 d = Mul(scale, NegMulAdd(h, slope, Sub(e, mean)));
      if (accumulate) d = Add(Load(d_x + i, part), d);
      Store(d, d_x + i, part);
      if (rounded != nullptr) Store(d, rounded + i, part);
      Store(Add(Load(sum_d_x + i, part), d), sum_d_x + i, part);
    });
  }
}

void Backward(const LayerNormGradient& norm, int64_t first, int64_t last) {
  VisitActivation(norm.dtype, [&]<class T>(TypeTag<T>) {
    if (norm.d_y_dtype == norm.dtype) return BackwardTyped<T, T>(norm, first, last);
    BackwardTyped<T, float>(norm, first, last);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroshard::device
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroshard::device {

HWY_EXPORT(Forward);
HWY_EXPORT(Backward);

void LayerNormRows(const LayerNormForward& norm, int64_t first, int64_t last) {
  HWY_DYNAMIC_DISPATCH(Forward)(norm, first, last);
}
void LayerNormBackwardRows(const LayerNormGradient& norm, int64_t first, int64_t last) {
  HWY_DYNAMIC_DISPATCH(Backward)(norm, first, last);
}

}  // namespace zeroshard::device
#endif  // HWY_ONCE

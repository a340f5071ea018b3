#include "zeroshard/device/cpu/layer_norm_kernels.h"

#include <algorithm>
#include <cmath>

#include "zeroshard/device/transformer_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/layer_norm_kernels.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "zeroshard/device/cpu/lanes16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroshard::device {
namespace HWY_NAMESPACE {

void Forward(const LayerNormForward& norm, int64_t first, int64_t last) {
  const int64_t width = norm.width;
  const float inverse_width = 1.0f / static_cast<float>(width);
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
    float* normalized = norm.normalized + row * width;
    float* y = norm.y + row * width;
    ForLanes(width, [&](int64_t i, auto part) ZS_LANES {
      const F16 h = Mul(Sub(Load(x + i, part), mean), scale);
      Store(h, normalized + i, part);
      Store(MulAdd(h, Load(norm.weight + i, part), Load(norm.bias + i, part)), y + i, part);
    });
  }
}

void Output(const LayerNormAgain& norm, int64_t first, int64_t last) {
  for (int64_t row = first; row < last; ++row) {
    const float* normalized = norm.normalized + row * norm.width;
    float* y = norm.y + row * norm.width;
    ForLanes(norm.width, [&](int64_t i, auto part) ZS_LANES {
      Store(MulAdd(Load(normalized + i, part), Load(norm.weight + i, part), Load(norm.bias + i, part)), y + i, part);
    });
  }
}

// With e = d_y weight: d_x = (e - mean(e) - normalized mean(e normalized)) inverse_deviation.
template <bool kAccumulate>
HWY_INLINE void Backward(const LayerNormGradient& norm, int64_t first, int64_t last) {
  const int64_t width = norm.width;
  const float inverse_width = 1.0f / static_cast<float>(width);
  float* sum_weight = norm.partial_weight + first / kRowsPerPartial * width;
  float* sum_bias = norm.partial_bias + first / kRowsPerPartial * width;
  float* sum_d_x = norm.partial_d_x + first / kRowsPerPartial * width;
  for (float* sums : {sum_weight, sum_bias, sum_d_x}) std::fill(sums, sums + width, 0.0f);
  for (int64_t row = first; row < last; ++row) {
    const float* d_y = norm.d_y + row * width;
    const float* normalized = norm.normalized + row * width;
    float* d_x = norm.d_x + row * width;
    F16 sum = Zero(), product = Zero();
    ForLanes(width, [&](int64_t i, auto part) ZS_LANES {
      const F16 d = Load(d_y + i, part), h = Load(normalized + i, part);
      const F16 e = Mul(d, Load(norm.weight + i, part));
      sum = Add(sum, e);
      product = MulAdd(e, h, product);
      Store(Add(Load(sum_bias + i, part), d), sum_bias + i, part);
      Store(MulAdd(d, h, Load(sum_weight + i, part)), sum_weight + i, part);
    });
    const F16 mean = Set(SumOfLanes(sum) * inverse_width), slope = Set(SumOfLanes(product) * inverse_width);
    const F16 scale = Set(norm.inverse_deviation[row]);
    ForLanes(width, [&](int64_t i, auto part) ZS_LANES {
      const F16 e = Mul(Load(d_y + i, part), Load(norm.weight + i, part));
      F16 d = Mul(scale, NegMulAdd(Load(normalized + i, part), slope, Sub(e, mean)));
      if constexpr (kAccumulate) d = Add(Load(d_x + i, part), d);
      Store(d, d_x + i, part);
      Store(Add(Load(sum_d_x + i, part), d), sum_d_x + i, part);
    });
  }
}

void BackwardOverwriting(const LayerNormGradient& norm, int64_t first, int64_t last) { Backward<false>(norm, first, last); }
void BackwardAdding(const LayerNormGradient& norm, int64_t first, int64_t last) { Backward<true>(norm, first, last); }

}  // namespace HWY_NAMESPACE
}  // namespace zeroshard::device
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroshard::device {

HWY_EXPORT(Forward);
HWY_EXPORT(Output);
HWY_EXPORT(BackwardOverwriting);
HWY_EXPORT(BackwardAdding);

void LayerNormRows(const LayerNormForward& norm, int64_t first, int64_t last) {
  HWY_DYNAMIC_DISPATCH(Forward)(norm, first, last);
}
void LayerNormOutputRows(const LayerNormAgain& norm, int64_t first, int64_t last) {
  HWY_DYNAMIC_DISPATCH(Output)(norm, first, last);
}
void LayerNormBackwardRows(const LayerNormGradient& norm, int64_t first, int64_t last) {
  if (norm.accumulate) {
    HWY_DYNAMIC_DISPATCH(BackwardAdding)(norm, first, last);
  } else {
    HWY_DYNAMIC_DISPATCH(BackwardOverwriting)(norm, first, last);
  }
}

}  // namespace zeroshard::device
#endif  // HWY_ONCE

#include "zeroshard/device/cuda/layer_norm_kernels.h"

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "zeroshard/device/convert.h"
#include "zeroshard/device/cuda/lanes.h"
#include "zeroshard/device/cuda/launch.h"
#include "zeroshard/device/cuda/sixteens.h"
#include "zeroshard/device/dtype_visitor.h"

namespace zeroshard::device::cuda {
namespace {

template <class T>
ZS_DEVICE void ForwardKernel(Block& b, int64_t rows, int64_t width, float inverse_width, In<float> x, In<T> weight,
                             In<T> bias, Out<T> normalized, Out<float> inverse_deviation, Out<T> y) {
  PerThread<float> mean, squares;
  b.ForEachThread([&](unsigned t) { mean[t] = squares[t] = 0; });
  ForEachRow(b, rows, [&](unsigned t, int64_t row) {
    float sum = 0;
    for (int64_t i = Lane(t); i < width; i += kLanesOfRow) sum += x[static_cast<size_t>(row * width + i)];
    mean[t] = sum;
  });
  b.FoldGroups<kLanesOfRow>(mean, Plus());
  ForEachRow(b, rows, [&](unsigned t, int64_t row) {
    mean[t] *= inverse_width;
    float sum = 0;
    for (int64_t i = Lane(t); i < width; i += kLanesOfRow) {
      const float away = x[static_cast<size_t>(row * width + i)] - mean[t];
      sum = fmaf(away, away, sum);
    }
    squares[t] = sum;
  });
  b.FoldGroups<kLanesOfRow>(squares, Plus());
  ForEachRow(b, rows, [&](unsigned t, int64_t row) {
    const float inverse = 1.0f / sqrtf(squares[t] * inverse_width + kLayerNormEpsilon);
    if (Lane(t) == 0) inverse_deviation[static_cast<size_t>(row)] = inverse;
    for (int64_t i = Lane(t); i < width; i += kLanesOfRow) {
      const auto at = static_cast<size_t>(row * width + i), column = static_cast<size_t>(i);
      const T h = Narrow<T>((x[at] - mean[t]) * inverse);
      normalized[at] = h;
      y[at] = Narrow<T>(fmaf(Widen(h), Widen(weight[column]), Widen(bias[column])));
    }
  });
}

template <class T>
ZS_DEVICE void OutputKernel(Block& b, int64_t rows, int64_t width, In<T> normalized, In<T> weight, In<T> bias, Out<T> y) {
  ForEachRow(b, rows, [&](unsigned t, int64_t row) {
    for (int64_t i = Lane(t); i < width; i += kLanesOfRow) {
      const auto at = static_cast<size_t>(row * width + i), column = static_cast<size_t>(i);
      y[at] = Narrow<T>(fmaf(Widen(normalized[at]), Widen(weight[column]), Widen(bias[column])));
    }
  });
}

// Threads of a block of kRowsPerPartial rows: first sixteen a row, then one a column.
constexpr unsigned kBackwardThreads = 512;

// With e = d_y weight: d_x = (e - mean(e) - normalized mean(e normalized)) inverse_deviation. A block is one row of each partial.
template <class T, class Gradient>
ZS_DEVICE void BackwardKernel(Block& b, int64_t rows, int64_t width, float inverse_width, bool accumulate, In<Gradient> d_y,
                              In<T> normalized, In<float> inverse_deviation, In<T> weight, InOut<float> d_x, Out<T> rounded,
                              Out<float> partial_weight, Out<float> partial_bias, Out<float> partial_d_x) {
  const int64_t first = int64_t{b.index()} * kRowsPerPartial;
  const int64_t count = rows - first < kRowsPerPartial ? rows - first : kRowsPerPartial;
  ZS_SHARED(float, mean, kRowsPerPartial);
  ZS_SHARED(float, slope, kRowsPerPartial);
  ZS_SHARED(float, scale, kRowsPerPartial);
  PerThread<float> sum, product;
  for (int64_t pass = 0; pass < count; pass += b.threads() / kLanesOfRow) {
    b.ForEachThread([&](unsigned t) {
      const int64_t row = pass + t / kLanesOfRow;
      float own_sum = 0, own_product = 0;
      for (int64_t i = Lane(t); row < count && i < width; i += kLanesOfRow) {
        const auto at = static_cast<size_t>((first + row) * width + i);
        const float e = Widen(d_y[at]) * Widen(weight[static_cast<size_t>(i)]);
        own_sum += e;
        own_product = fmaf(e, Widen(normalized[at]), own_product);
      }
      sum[t] = own_sum;
      product[t] = own_product;
    });
    b.FoldGroups<kLanesOfRow>(sum, Plus());
    b.FoldGroups<kLanesOfRow>(product, Plus());
    b.ForEachThread([&](unsigned t) {
      const int64_t row = pass + t / kLanesOfRow;
      if (Lane(t) != 0 || row >= count) return;
      mean[static_cast<size_t>(row)] = sum[t] * inverse_width;
      slope[static_cast<size_t>(row)] = product[t] * inverse_width;
      scale[static_cast<size_t>(row)] = inverse_deviation[static_cast<size_t>(first + row)];
    });
  }
  b.ForEachThread([&](unsigned t) {
    for (int64_t column = t; column < width; column += b.threads()) {
      const float w = Widen(weight[static_cast<size_t>(column)]);
      float sum_weight = 0, sum_bias = 0, sum_d_x = 0;
      auto at = static_cast<size_t>(first * width + column);
      ZS_UNROLL_BY(4)
      for (unsigned row = 0; row < static_cast<unsigned>(count); ++row, at += static_cast<size_t>(width)) {
        const float d = Widen(d_y[at]), h = Widen(normalized[at]);
        sum_bias += d;
        sum_weight = fmaf(d, h, sum_weight);
        float gradient = scale[row] * fmaf(-h, slope[row], d * w - mean[row]);
        if (accumulate) gradient = d_x[at] + gradient;
        d_x[at] = gradient;
        if (rounded.n != 0) rounded[at] = Narrow<T>(gradient);
        sum_d_x += gradient;
      }
      const auto to = static_cast<size_t>(int64_t{b.index()} * width + column);
      partial_weight[to] = sum_weight;
      partial_bias[to] = sum_bias;
      partial_d_x[to] = sum_d_x;
    }
  });
}

float InverseOf(int64_t width) { return 1.0f / static_cast<float>(width); }

template <class T, class Gradient>
cudaError_t LaunchBackward(cudaStream_t stream, const LayerNormGradient& a, WriteMode mode) {
  const int64_t width = a.weight.elements(), rows = a.d_y.elements() / width;
  const Grid grid{static_cast<unsigned>(PartialRows(rows)), kBackwardThreads};
  return LaunchBlocks<BackwardKernel<T, Gradient>, kBackwardThreads>(
      stream, grid, rows, width, InverseOf(width), mode == WriteMode::kAccumulate, Reads<Gradient>(a.d_y),
      Reads<T>(a.normalized), Reads<float>(a.inverse_deviation), Reads<T>(a.weight), Updates<float>(a.d_x),
      Writes<T>(a.rounded), Writes<float>(a.partials.weight), Writes<float>(a.partials.bias), Writes<float>(a.partials.d_x));
}

}  // namespace

cudaError_t LayerNorm(cudaStream_t stream, const Array& x, const Array& weight, const Array& bias, const Array& normalized,
                      const Array& inverse_deviation, const Array& y) {
  if (x.empty()) return cudaSuccess;
  const int64_t width = weight.elements(), rows = x.elements() / width;
  cudaError_t error = cudaSuccess;
  VisitActivation(y.dtype(), [&]<class T>(TypeTag<T>) {
    error = LaunchBlocks<ForwardKernel<T>>(stream, GridForRows(rows), rows, width, InverseOf(width), Reads<float>(x),
                                           Reads<T>(weight), Reads<T>(bias), Writes<T>(normalized),
                                           Writes<float>(inverse_deviation), Writes<T>(y));
  });
  return error;
}

cudaError_t LayerNormOutput(cudaStream_t stream, const Array& normalized, const Array& weight, const Array& bias,
                            const Array& y) {
  if (y.empty()) return cudaSuccess;
  const int64_t width = weight.elements(), rows = y.elements() / width;
  cudaError_t error = cudaSuccess;
  VisitActivation(y.dtype(), [&]<class T>(TypeTag<T>) {
    error = LaunchBlocks<OutputKernel<T>>(stream, GridForRows(rows), rows, width, Reads<T>(normalized), Reads<T>(weight),
                                          Reads<T>(bias), Writes<T>(y));
  });
  return error;
}

cudaError_t LayerNormBackward(cudaStream_t stream, const LayerNormGradient& arrays, WriteMode mode) {
  if (arrays.d_y.empty()) return cudaSuccess;
  cudaError_t error = cudaSuccess;
  VisitActivation(arrays.normalized.dtype(), [&]<class T>(TypeTag<T>) {
    error = arrays.d_y.dtype() == arrays.normalized.dtype() ? LaunchBackward<T, T>(stream, arrays, mode)
                                                            : LaunchBackward<T, float>(stream, arrays, mode);
  });
  return error;
}

}  // namespace zeroshard::device::cuda

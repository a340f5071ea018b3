#include <cmath>
#include <cstdint>
#include <type_traits>

#include "zeroshard/device/convert.h"
#include "zeroshard/device/cuda/fours.h"
#include "zeroshard/device/cuda/lanes.h"
#include "zeroshard/device/cuda/launch.h"
#include "zeroshard/device/cuda/layer_norm_kernels.h"
#include "zeroshard/device/cuda/sixteens.h"
#include "zeroshard/device/dtype_visitor.h"

namespace zeroshard::device::cuda {
namespace {

// A row's threads as those of a grid, for what they do to each element by itself.
ZS_DEVICE Thread InRow(unsigned t) { return {0, t % kLanesOfRow, 1, kLanesOfRow}; }

// For rows of any width.
template <class T>
ZS_DEVICE void ForwardKernel(Block& b, bool aligned, int64_t rows, int64_t width, float inverse_width, In<float> x,
                             In<T> weight, In<T> bias, Out<T> normalized, Out<float> inverse_deviation, Out<T> y) {
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
    ForLanes(InRow(t), width, aligned, [&](auto lanes, int64_t i) {
      auto h = Load<lanes()>(x, row * width + i);
      const auto w = Load<lanes()>(weight, i), add = Load<lanes()>(bias, i);
      for (auto& element : h.v) element = WidenUniformly(NarrowUniformly<T>((element - mean[t]) * inverse));
      Store(h, normalized, row * width + i);
      for (int j = 0; j < lanes(); ++j) h.v[j] = fmaf(h.v[j], w.v[j], add.v[j]);
      Store(h, y, row * width + i);
    });
  });
}

// Elements of a row that a thread holds: GPT-2's widths of 768, 1280, and 1600.
constexpr int kFew = 48, kMore = 80, kMost = 100;

// Of a thread's elements of a row, which it keeps in registers: for rows of up to 16 kHeld. Beyond the row they are zeros.
template <int kHeld>
struct Held {
  float v[kHeld];
};

// ForwardKernel that reads its rows once; the same sums in the same order.
template <class T, int kHeld>
ZS_DEVICE void HeldForwardKernel(Block& b, int64_t rows, int64_t width, float inverse_width, In<float> x, In<T> weight,
                                 In<T> bias, Out<T> normalized, Out<float> inverse_deviation, Out<T> y) {
  PerThread<Held<kHeld>> held;
  PerThread<float> mean, squares;
  b.ForEachThread([&](unsigned t) { mean[t] = squares[t] = 0; });
  ForEachRow(b, rows, [&](unsigned t, int64_t row) {
    ZS_UNROLL
    for (int k = 0; k < kHeld; ++k) {
      const int64_t i = Lane(t) + k * kLanesOfRow;
      held[t].v[k] = i < width ? x[static_cast<size_t>(row * width + i)] : 0.0f;
    }
    float sum = 0;
    ZS_UNROLL
    for (int k = 0; k < kHeld; ++k) sum += held[t].v[k];
    mean[t] = sum;
  });
  b.FoldGroups<kLanesOfRow>(mean, Plus());
  ForEachRow(b, rows, [&](unsigned t, int64_t) {
    mean[t] *= inverse_width;
    float sum = 0;
    ZS_UNROLL
    for (int k = 0; k < kHeld; ++k) {
      const float away = held[t].v[k] - mean[t], more = fmaf(away, away, sum);
      sum = Lane(t) + k * kLanesOfRow < width ? more : sum;
    }
    squares[t] = sum;
  });
  b.FoldGroups<kLanesOfRow>(squares, Plus());
  ForEachRow(b, rows, [&](unsigned t, int64_t row) {
    const float inverse = 1.0f / sqrtf(squares[t] * inverse_width + kLayerNormEpsilon);
    if (Lane(t) == 0) inverse_deviation[static_cast<size_t>(row)] = inverse;
    ZS_UNROLL
    for (int k = 0; k < kHeld; ++k) {
      const int64_t i = Lane(t) + k * kLanesOfRow;
      if (i >= width) continue;
      const T h = NarrowUniformly<T>((held[t].v[k] - mean[t]) * inverse);
      const float w = WidenUniformly(weight[static_cast<size_t>(i)]), add = WidenUniformly(bias[static_cast<size_t>(i)]);
      normalized[static_cast<size_t>(row * width + i)] = h;
      y[static_cast<size_t>(row * width + i)] = NarrowUniformly<T>(fmaf(WidenUniformly(h), w, add));
    }
  });
}

template <class T>
ZS_DEVICE void OutputKernel(Block& b, bool aligned, int64_t rows, int64_t width, In<T> normalized, In<T> weight, In<T> bias,
                            Out<T> y) {
  ForEachRow(b, rows, [&](unsigned t, int64_t row) {
    ForLanes(InRow(t), width, aligned, [&](auto lanes, int64_t i) {
      auto h = Load<lanes()>(normalized, row * width + i);
      const auto w = Load<lanes()>(weight, i), add = Load<lanes()>(bias, i);
      for (int j = 0; j < lanes(); ++j) h.v[j] = fmaf(h.v[j], w.v[j], add.v[j]);
      Store(h, y, row * width + i);
    });
  });
}

// Threads of a block of kRowsPerPartial rows: first sixteen a row, then one for each two columns, where they are aligned.
constexpr unsigned kBackwardThreads = 512;
// Rows that a thread loads before it stores any: a store may be to what is loaded next, for all that the compiler knows.
constexpr unsigned kAhead = 4;

// With e = d_y weight: d_x = (e - mean(e) - normalized mean(e normalized)) inverse_deviation. A block is one row of each partial.
template <class T, class Gradient>
ZS_DEVICE void BackwardKernel(Block& b, bool aligned, int64_t rows, int64_t width, float inverse_width, bool accumulate,
                              In<Gradient> d_y, In<T> normalized, In<float> inverse_deviation, In<T> weight,
                              InOut<float> d_x, Out<T> rounded, Out<float> partial_weight, Out<float> partial_bias,
                              Out<float> partial_d_x) {
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
        const float e = WidenUniformly(d_y[at]) * WidenUniformly(weight[static_cast<size_t>(i)]);
        own_sum += e;
        own_product = fmaf(e, WidenUniformly(normalized[at]), own_product);
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
  const auto rows_here = static_cast<unsigned>(count);
  const auto add_columns = [&](auto lanes, int64_t column) {
    const auto w = Load<lanes()>(weight, column);
    Lanes<float, lanes()> sum_weight = {}, sum_bias = {}, sum_d_x = {};
    for (unsigned row = 0; row < rows_here; row += kAhead) {
      Lanes<float, lanes()> d[kAhead] = {}, h[kAhead] = {}, before[kAhead] = {};
      ZS_UNROLL
      for (unsigned r = 0; r < kAhead; ++r) {
        if (row + r >= rows_here) continue;
        const int64_t at = (first + row + r) * width + column;
        d[r] = Load<lanes()>(d_y, at);
        h[r] = Load<lanes()>(normalized, at);
        if (accumulate) before[r] = Load<lanes()>(d_x, at);
      }
      ZS_UNROLL
      for (unsigned r = 0; r < kAhead; ++r) {
        if (row + r >= rows_here) continue;
        Lanes<float, lanes()> gradient;
        for (int j = 0; j < lanes(); ++j) {
          sum_bias.v[j] += d[r].v[j];
          sum_weight.v[j] = fmaf(d[r].v[j], h[r].v[j], sum_weight.v[j]);
          gradient.v[j] = scale[row + r] * fmaf(-h[r].v[j], slope[row + r], d[r].v[j] * w.v[j] - mean[row + r]);
          if (accumulate) gradient.v[j] = before[r].v[j] + gradient.v[j];
          sum_d_x.v[j] += gradient.v[j];
        }
        const int64_t at = (first + row + r) * width + column;
        Store(gradient, d_x, at);
        if (rounded.n != 0) Store(gradient, rounded, at);
      }
    }
    const int64_t to = int64_t{b.index()} * width + column;
    Store(sum_weight, partial_weight, to);
    Store(sum_bias, partial_bias, to);
    Store(sum_d_x, partial_d_x, to);
  };
  b.ForEachThread([&](unsigned t) { ForLanes<2>(Thread{0, t, 1, b.threads()}, width, aligned, add_columns); });
}

float InverseOf(int64_t width) { return 1.0f / static_cast<float>(width); }

template <class T, class Gradient>
cudaError_t LaunchBackward(cudaStream_t stream, const LayerNormGradient& a, WriteMode mode) {
  const int64_t width = a.weight.elements(), rows = a.d_y.elements() / width;
  const Grid grid{static_cast<unsigned>(PartialRows(rows)), kBackwardThreads};
  const bool aligned = width % 4 == 0 &&
                       Aligned({a.d_y, a.normalized, a.weight, a.d_x, a.partials.weight, a.partials.bias, a.partials.d_x}) &&
                       (a.rounded.empty() || Aligned({a.rounded}));
  return LaunchBlocks<BackwardKernel<T, Gradient>, kBackwardThreads>(
      stream, grid, aligned, rows, width, InverseOf(width), mode == WriteMode::kAccumulate, Reads<Gradient>(a.d_y),
      Reads<T>(a.normalized), Reads<float>(a.inverse_deviation), Reads<T>(a.weight), Updates<float>(a.d_x),
      Writes<T>(a.rounded), Writes<float>(a.partials.weight), Writes<float>(a.partials.bias), Writes<float>(a.partials.d_x));
}

}  // namespace

cudaError_t LayerNorm(cudaStream_t stream, const Array& x, const Array& weight, const Array& bias, const Array& normalized,
                      const Array& inverse_deviation, const Array& y) {
  if (x.empty()) return cudaSuccess;
  const int64_t width = weight.elements(), rows = x.elements() / width;
  const bool aligned = width % 4 == 0 && Aligned({x, weight, bias, normalized, y});
  cudaError_t error = cudaSuccess;
  VisitActivation(y.dtype(), [&]<class T>(TypeTag<T>) {
    const auto launch = [&](auto run, auto... aligned_or_none) {
      return run(stream, GridForRows(rows), aligned_or_none..., rows, width, InverseOf(width), Reads<float>(x),
                 Reads<T>(weight), Reads<T>(bias), Writes<T>(normalized), Writes<float>(inverse_deviation), Writes<T>(y));
    };
    if (width <= kLanesOfRow * kFew) {
      error = launch([](auto... args) { return LaunchBlocks<HeldForwardKernel<T, kFew>>(args...); });
    } else if (width <= kLanesOfRow * kMore) {
      error = launch([](auto... args) { return LaunchBlocks<HeldForwardKernel<T, kMore>>(args...); });
    } else if (width <= kLanesOfRow * kMost) {
      error = launch([](auto... args) { return LaunchBlocks<HeldForwardKernel<T, kMost>>(args...); });
    } else {
      error = launch([](auto... args) { return LaunchBlocks<ForwardKernel<T>>(args...); }, aligned);
    }
  });
  return error;
}

cudaError_t LayerNormOutput(cudaStream_t stream, const Array& normalized, const Array& weight, const Array& bias,
                            const Array& y) {
  if (y.empty()) return cudaSuccess;
  const int64_t width = weight.elements(), rows = y.elements() / width;
  const bool aligned = width % 4 == 0 && Aligned({normalized, weight, bias, y});
  cudaError_t error = cudaSuccess;
  VisitActivation(y.dtype(), [&]<class T>(TypeTag<T>) {
    error = LaunchBlocks<OutputKernel<T>>(stream, GridForRows(rows), aligned, rows, width, Reads<T>(normalized),
                                          Reads<T>(weight), Reads<T>(bias), Writes<T>(y));
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

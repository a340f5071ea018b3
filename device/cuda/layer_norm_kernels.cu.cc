#include "zeroshard/device/cuda/layer_norm_kernels.h"

#include <cmath>
#include <cstdint>

#include "zeroshard/device/convert.h"
#include "zeroshard/device/cuda/fours.h"
#include "zeroshard/device/cuda/lanes.h"
#include "zeroshard/device/cuda/launch.h"
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

float InverseOf(int64_t width) { return 1.0f / static_cast<float>(width); }

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

}  // namespace zeroshard::device::cuda

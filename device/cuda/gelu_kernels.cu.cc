#include "zeroshard/device/cuda/gelu_kernels.h"

#include <cmath>
#include <cstdint>

#include "zeroshard/device/convert.h"
#include "zeroshard/device/cuda/exponential.h"
#include "zeroshard/device/cuda/fours.h"
#include "zeroshard/device/cuda/lanes.h"
#include "zeroshard/device/cuda/launch.h"
#include "zeroshard/device/dtype_visitor.h"
#include "zeroshard/device/transformer_kernels.h"

namespace zeroshard::device::cuda {
namespace {

constexpr float kTwiceRoot = 1.5957691216f;  // 2 sqrt(2 / pi)
constexpr float kCubic = 0.044715f;

// sigmoid(2 u), where tanh(u) = 2 sigmoid(2 u) - 1.
ZS_DEVICE float Gate(float x, float x_squared) {
  return 1.0f / (1.0f + Exponential(x * -kTwiceRoot * fmaf(x_squared, kCubic, 1.0f)));
}

template <class T>
ZS_DEVICE void GeluKernel(Thread t, bool aligned, In<T> x, Out<T> y) {
  ForLanes(t, static_cast<int64_t>(y.n), aligned, [&](auto lanes, int64_t i) {
    auto v = Load<lanes()>(x, i);
    for (auto& a : v.v) a *= Gate(a, a * a);
    Store(v, y, i);
  });
}

// GELU' = s + x s (1 - s) (2 u)', with s the gate. A thread takes a column of kRowsPerPartial rows.
template <class T>
ZS_DEVICE void BackwardKernel(Thread t, int64_t rows, int64_t width, InOut<T> x, InOut<T> d, Out<float> partials) {
  for (auto i = static_cast<int64_t>(t.Global()); i < static_cast<int64_t>(partials.n);
       i += static_cast<int64_t>(t.Stride())) {
    const int64_t partial = i / width, column = i - partial * width, first = partial * kRowsPerPartial;
    const int64_t last = first + kRowsPerPartial < rows ? first + kRowsPerPartial : rows;
    float sum = 0;
    for (int64_t row = first; row < last; ++row) {
      const auto at = static_cast<size_t>(row * width + column);
      const float a = Widen(x[at]), squared = a * a, s = Gate(a, squared);
      const float slope = kTwiceRoot * fmaf(squared, 3 * kCubic, 1.0f);
      const float gradient = Widen(d[at]) * fmaf(a * slope, s * (1.0f - s), s);
      x[at] = Narrow<T>(a * s);
      d[at] = Narrow<T>(gradient);
      sum += gradient;
    }
    partials[static_cast<size_t>(i)] = sum;
  }
}

}  // namespace

cudaError_t Gelu(cudaStream_t stream, const Array& x, const Array& y) {
  if (y.empty()) return cudaSuccess;
  cudaError_t error = cudaSuccess;
  VisitActivation(x.dtype(), [&]<class T>(TypeTag<T>) {
    error = Launch<GeluKernel<T>>(stream, GridForFours(y.elements()), Aligned({x, y}), Reads<T>(x), Writes<T>(y));
  });
  return error;
}

cudaError_t GeluBackward(cudaStream_t stream, const Array& x, const Array& d, const Array& partials, int64_t width) {
  if (x.empty()) return cudaSuccess;
  cudaError_t error = cudaSuccess;
  VisitActivation(x.dtype(), [&]<class T>(TypeTag<T>) {
    error = Launch<BackwardKernel<T>>(stream, GridFor(partials.elements()), x.elements() / width, width, Updates<T>(x),
                                      Updates<T>(d), Writes<float>(partials));
  });
  return error;
}

}  // namespace zeroshard::device::cuda

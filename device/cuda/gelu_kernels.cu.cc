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

// GELU' = s + x s (1 - s) (2 u)', with s the gate. Gives it times the gradient, and x becomes GELU's output.
ZS_DEVICE float Through(float& x, float gradient) {
  const float a = x, squared = a * a, s = Gate(a, squared);
  const float slope = kTwiceRoot * fmaf(squared, 3 * kCubic, 1.0f);
  x = a * s;
  return gradient * fmaf(a * slope, s * (1.0f - s), s);
}

// A thread takes columns of kRowsPerPartial rows, four where they are aligned, and loads two rows before it stores either: a store may
// be to what is loaded next, for all that the compiler knows.
template <class T>
ZS_DEVICE void BackwardKernel(Thread t, bool aligned, int64_t rows, int64_t width, InOut<T> x, InOut<T> d,
                              Out<float> partials) {
  constexpr int kAhead = 2;
  ForLanes(t, static_cast<int64_t>(partials.n), aligned, [&](auto lanes, int64_t i) {
    const int64_t partial = i / width, column = i - partial * width, first = partial * kRowsPerPartial;
    const int64_t last = first + kRowsPerPartial < rows ? first + kRowsPerPartial : rows;
    Lanes<float, lanes()> sum = {};
    for (int64_t row = first; row < last; row += kAhead) {
      Lanes<float, lanes()> a[kAhead] = {}, gradient[kAhead] = {};
      ZS_UNROLL
      for (int r = 0; r < kAhead; ++r) {
        if (row + r >= last) continue;
        a[r] = Load<lanes()>(x, (row + r) * width + column);
        gradient[r] = Load<lanes()>(d, (row + r) * width + column);
      }
      ZS_UNROLL
      for (int r = 0; r < kAhead; ++r) {
        if (row + r >= last) continue;
        for (int j = 0; j < lanes(); ++j) {
          gradient[r].v[j] = Through(a[r].v[j], gradient[r].v[j]);
          sum.v[j] += gradient[r].v[j];
        }
        Store(a[r], x, (row + r) * width + column);
        Store(gradient[r], d, (row + r) * width + column);
      }
    }
    Store(sum, partials, i);
  });
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
    error = Launch<BackwardKernel<T>>(stream, GridForFours(partials.elements()), width % 4 == 0 && Aligned({x, d, partials}),
                                      x.elements() / width, width, Updates<T>(x), Updates<T>(d), Writes<float>(partials));
  });
  return error;
}

}  // namespace zeroshard::device::cuda

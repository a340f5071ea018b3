#include "zeroshard/device/cpu/gelu_kernels.h"

#include <algorithm>

#include "zeroshard/device/dtype_visitor.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/gelu_kernels.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "zeroshard/device/cpu/lanes16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroshard::device {
namespace HWY_NAMESPACE {

constexpr float kTwiceRoot = 1.5957691216f;  // 2 sqrt(2 / pi)
constexpr float kCubic = 0.044715f;

// sigmoid(2 u), where tanh(u) = 2 sigmoid(2 u) - 1.
HWY_INLINE HWY_ATTR F16 Gate(F16 x, F16 x_squared) {
  const F16 one = Set(1.0f);
  const F16 minus_two_u = Mul(Mul(x, Set(-kTwiceRoot)), MulAdd(x_squared, Set(kCubic), one));
  return Div(one, Add(one, Exp(minus_two_u)));
}

template <class T>
void ElementsTyped(const T* x, T* y, int64_t n) {
  ForLanes(n, [&](int64_t i, auto part) ZS_LANES {
    const F16 a = Load(x + i, part);
    Store(Mul(a, Gate(a, Mul(a, a))), y + i, part);
  });
}

void Elements(DType dtype, const void* x, void* y, int64_t n) {
  VisitActivation(dtype, [&]<class T>(TypeTag<T>) { ElementsTyped(static_cast<const T*>(x), static_cast<T*>(y), n); });
}

// GELU' = s + x s (1 - s) (2 u)', with s the gate.
template <class T>
void BackwardRowsTyped(T* x, T* d, float* sums, int64_t rows, int64_t width) {
  std::fill(sums, sums + width, 0.0f);
  for (int64_t row = 0; row < rows; ++row, x += width, d += width) {
    ForLanes(width, [&](int64_t i, auto part) ZS_LANES {
      const F16 one = Set(1.0f);
      const F16 a = Load(x + i, part), squared = Mul(a, a), s = Gate(a, squared);
      const F16 slope = Mul(Set(kTwiceRoot), MulAdd(squared, Set(3 * kCubic), one));
      const F16 derivative = MulAdd(Mul(a, slope), Mul(s, Sub(one, s)), s);
      const F16 gradient = Mul(Load(d + i, part), derivative);
      Store(Mul(a, s), x + i, part);
      Store(gradient, d + i, part);
      Store(Add(Load(sums + i, part), gradient), sums + i, part);
    });
  }
}

void BackwardRows(DType dtype, void* x, void* d, float* sums, int64_t rows, int64_t width) {
  VisitActivation(
      dtype, [&]<class T>(TypeTag<T>) { BackwardRowsTyped(static_cast<T*>(x), static_cast<T*>(d), sums, rows, width); });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroshard::device
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroshard::device {

HWY_EXPORT(Elements);
HWY_EXPORT(BackwardRows);

void GeluElements(DType dtype, const void* x, void* y, int64_t n) { HWY_DYNAMIC_DISPATCH(Elements)(dtype, x, y, n); }
void GeluBackwardRows(DType dtype, void* x, void* d, float* sums, int64_t rows, int64_t width) {
  HWY_DYNAMIC_DISPATCH(BackwardRows)(dtype, x, d, sums, rows, width);
}

}  // namespace zeroshard::device
#endif  // HWY_ONCE

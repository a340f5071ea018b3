#include "zeroshard/device/cuda/elementwise_kernels.h"

#include <cstdint>

#include "zeroshard/device/convert.h"
#include "zeroshard/device/cuda/fours.h"
#include "zeroshard/device/cuda/lanes.h"
#include "zeroshard/device/cuda/launch.h"
#include "zeroshard/device/dtype_visitor.h"

namespace zeroshard::device::cuda {
namespace {

template <class T>
ZS_DEVICE void FillKernel(Thread t, bool aligned, T value, Out<T> y) {
  ForLanes(t, static_cast<int64_t>(y.n), aligned, [&](auto lanes, int64_t i) {
    Stored<T, lanes()> stored;
    for (auto& element : stored.v) element = value;
    StoreAsIs(stored, y, i);
  });
}

template <class T>
ZS_DEVICE void CopyKernel(Thread t, bool aligned, In<T> x, Out<T> y) {
  ForLanes(t, static_cast<int64_t>(y.n), aligned, [&](auto lanes, int64_t i) { StoreAsIs(LoadAsIs<lanes()>(x, i), y, i); });
}

template <class From, class To>
ZS_DEVICE void ConvertKernel(Thread t, bool aligned, In<From> x, Out<To> y) {
  ForLanes(t, static_cast<int64_t>(y.n), aligned, [&](auto lanes, int64_t i) { Store(Load<lanes()>(x, i), y, i); });
}

template <class From, class To>
ZS_DEVICE void AccumulateKernel(Thread t, bool aligned, In<From> x, InOut<To> y) {
  ForLanes(t, static_cast<int64_t>(y.n), aligned, [&](auto lanes, int64_t i) {
    auto sum = Load<lanes()>(y, i);
    const auto more = Load<lanes()>(x, i);
    for (int j = 0; j < lanes(); ++j) sum.v[j] += static_cast<typename WideOf<To>::type>(more.v[j]);
    Store(sum, y, i);
  });
}

template <class T>
ZS_DEVICE void ScaleKernel(Thread t, bool aligned, typename WideOf<T>::type factor, InOut<T> y) {
  ForLanes(t, static_cast<int64_t>(y.n), aligned, [&](auto lanes, int64_t i) {
    auto v = Load<lanes()>(y, i);
    for (auto& element : v.v) element *= factor;
    Store(v, y, i);
  });
}

}  // namespace

cudaError_t Fill(cudaStream_t stream, const Array& y, double value) {
  if (y.empty()) return cudaSuccess;
  cudaError_t error = cudaSuccess;
  VisitDType(y.dtype(), [&]<class T>(TypeTag<T>) {
    error = Launch<FillKernel<T>>(stream, GridForFours(y.elements()), Aligned({y}), Narrow<T>(value), Writes<T>(y));
  });
  return error;
}

cudaError_t Copy(cudaStream_t stream, const Array& x, const Array& y) {
  if (y.empty() || x.address() == y.address()) return cudaSuccess;
  const Array from = x.As(DType::kUint8), to = y.As(DType::kUint8);
  // In words of four bytes where they are whole.
  const Array wide_from = x.As(DType::kFloat32), wide_to = y.As(DType::kFloat32);
  if (y.bytes() % 4 == 0 && Aligned({wide_from, wide_to})) {
    return Launch<CopyKernel<uint32_t>>(stream, GridForFours(wide_to.elements()), true, Reads<uint32_t>(from),
                                        Writes<uint32_t>(to));
  }
  return Launch<CopyKernel<uint8_t>>(stream, GridForFours(to.elements()), Aligned({from, to}), Reads<uint8_t>(from),
                                     Writes<uint8_t>(to));
}

cudaError_t Convert(cudaStream_t stream, const Array& x, const Array& y) {
  if (y.empty()) return cudaSuccess;
  cudaError_t error = cudaSuccess;
  VisitFloat(x.dtype(), [&]<class From>(TypeTag<From>) {
    VisitFloat(y.dtype(), [&]<class To>(TypeTag<To>) {
      error = Launch<ConvertKernel<From, To>>(stream, GridForFours(y.elements()), Aligned({x, y}), Reads<From>(x),
                                              Writes<To>(y));
    });
  });
  return error;
}

cudaError_t Accumulate(cudaStream_t stream, const Array& x, const Array& y) {
  if (y.empty()) return cudaSuccess;
  cudaError_t error = cudaSuccess;
  VisitFloat(x.dtype(), [&]<class From>(TypeTag<From>) {
    VisitFloat(y.dtype(), [&]<class To>(TypeTag<To>) {
      error = Launch<AccumulateKernel<From, To>>(stream, GridForFours(y.elements()), Aligned({x, y}), Reads<From>(x),
                                                 Updates<To>(y));
    });
  });
  return error;
}

cudaError_t Scale(cudaStream_t stream, const Array& y, double factor) {
  if (y.empty()) return cudaSuccess;
  cudaError_t error = cudaSuccess;
  VisitFloat(y.dtype(), [&]<class T>(TypeTag<T>) {
    error = Launch<ScaleKernel<T>>(stream, GridForFours(y.elements()), Aligned({y}),
                                   static_cast<typename WideOf<T>::type>(factor), Updates<T>(y));
  });
  return error;
}

}  // namespace zeroshard::device::cuda

// A stretch of device memory as a kernel gets it, with what the kernel does to it: In<T>, Out<T>, InOut<T>.
//
// On a GPU it is a bare pointer and a count. Where the host's compiler builds the kernel for the doubles, an access outside the
// stretch ends the test, and what is declared is what the doubles check for order.
//
// Only .cu.cc files and the headers of kernels include this.
//
// Example:
//   ZS_DEVICE void Axpy(Thread t, float a, In<float> x, InOut<float> y) {
//     for (size_t i = t.Global(); i < y.n; i += t.Stride()) y[i] = fmaf(a, x[i], y[i]);
//   }
//   Launch<Axpy>(stream, GridFor(n), a, Reads<float>(x), Updates<float>(y));      // of device::Array
#pragma once

#include <cstddef>
#include <cstdint>

#include "zeroshard/device/array.h"

#if defined(__CUDACC__)
#define ZS_DEVICE __device__ __forceinline__
#else
#define ZS_DEVICE inline
#endif

namespace zeroshard::device::cuda {

#if !defined(__CUDACC__)
namespace doubles {
// Ends the process with the kernel's name and both numbers (launch_on_double.cc).
[[noreturn]] void OutOfRange(size_t element, size_t elements);
}  // namespace doubles
#endif

template <class T, AccessMode kMode>
struct Declared {
  T* p;
  size_t n;  // elements

  ZS_DEVICE T& operator[](size_t i) const {
#if !defined(__CUDACC__)
    if (i >= n) doubles::OutOfRange(i, n);
#endif
    return p[i];
  }
};

template <class T>
using In = Declared<const T, AccessMode::kRead>;
template <class T>
using Out = Declared<T, AccessMode::kWrite>;
template <class T>
using InOut = Declared<T, AccessMode::kReadWrite>;

// All of an array as elements of T. An empty array has n == 0.
template <class T>
In<T> Reads(device::In in) {
  return {reinterpret_cast<const T*>(in.array.address()), static_cast<size_t>(in.array.bytes()) / sizeof(T)};
}
template <class T>
Out<T> Writes(device::Out out) {
  return {reinterpret_cast<T*>(out.array.address()), static_cast<size_t>(out.array.bytes()) / sizeof(T)};
}
template <class T>
InOut<T> Updates(device::InOut io) {
  return {reinterpret_cast<T*>(io.array.address()), static_cast<size_t>(io.array.bytes()) / sizeof(T)};
}

}  // namespace zeroshard::device::cuda

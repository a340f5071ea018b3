// Block: a kernel written by phases of a block of threads. After each phase all threads of the block have come that far.
//
// So one text runs on a GPU, where each thread takes its part of a phase and a barrier ends it, and on the doubles, where a loop runs
// over the threads. What a thread keeps from phase to phase is a PerThread, what all see is a Shared; nothing else survives a phase.
//
// Only .cu.cc files and the headers of kernels include this.
//
// Example: one block a row.
//   ZS_DEVICE void RowSum(Block& b, size_t width, In<float> x, Out<float> sums) {
//     PerThread<float> part;
//     b.ForEachThread([&](unsigned t) {
//       float s = 0;
//       for (size_t i = t; i < width; i += b.threads()) s += x[b.index() * width + i];
//       part[t] = s;
//     });
//     const float sum = b.Sum(part);
//     b.ForEachThread([&](unsigned t) { if (t == 0) sums[b.index()] = sum; });
//   }
#pragma once

#include <cstddef>
#include <cstring>

#include "zeroshard/device/cuda/declared.h"

namespace zeroshard::device::cuda {

inline constexpr unsigned kMaxThreads = 1024;

#if defined(__CUDACC__)

template <class T>
struct PerThread {
  T value;
  __device__ __forceinline__ T& operator[](unsigned) { return value; }
};

class Block {
 public:
  __device__ __forceinline__ unsigned index() const { return blockIdx.x; }
  __device__ __forceinline__ unsigned blocks() const { return gridDim.x; }
  __device__ __forceinline__ unsigned threads() const { return blockDim.x; }

  // A phase: f(t) for each thread t.
  template <class F>
  __device__ __forceinline__ void ForEachThread(F f) {
    f(threadIdx.x);
    __syncthreads();
  }

  // The threads' values combined pairwise by `combine`, in a halving tree over them: t with t + threads/2, and so on. threads() is
  // a power of two. `x` is left as it was.
  template <class T, class Combine>
  __device__ __forceinline__ T Fold(PerThread<T>& x, Combine combine) {
    __shared__ T parts[kMaxThreads];
    parts[threadIdx.x] = x.value;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half != 0; half /= 2) {
      if (threadIdx.x < half) parts[threadIdx.x] = combine(parts[threadIdx.x], parts[threadIdx.x + half]);
      __syncthreads();
    }
    const T result = parts[0];
    __syncthreads();
    return result;
  }
  template <class T>
  __device__ __forceinline__ T Sum(PerThread<T>& x) {
    return Fold(x, [](T a, T b) { return a + b; });
  }

  // The same within each group of kSize neighbouring threads, a power of two up to a warp's 32: x becomes its group's value, for each
  // thread. `combine` commutes.
  template <unsigned kSize, class T, class Combine>
  __device__ __forceinline__ void FoldGroups(PerThread<T>& x, Combine combine) {
    static_assert(kSize <= 32 && (kSize & (kSize - 1)) == 0);
#pragma unroll
    for (unsigned half = kSize / 2; half != 0; half /= 2) {
      x.value = combine(x.value, __shfl_xor_sync(0xffffffffu, x.value, half));
    }
  }
};

// Memory of the block, `size` elements, which hold nothing yet: declared once at a kernel's top, by ZS_SHARED(float, tile, 256).
#define ZS_SHARED(type, name, size) __shared__ type name[size]

#else

namespace doubles {
// Whether phases run from the last thread to the first: results that depend on it want a barrier (control.h).
bool& ThreadsBackwards();
// Ends the process: a group's threads are not whole warps.
[[noreturn]] void WarpInPart(unsigned threads);
}  // namespace doubles

template <class T>
struct PerThread {
  T values[kMaxThreads];
  T& operator[](unsigned thread) { return values[thread]; }
};

class Block {
 public:
  Block(unsigned index, unsigned blocks, unsigned threads) : index_(index), blocks_(blocks), threads_(threads) {}
  unsigned index() const { return index_; }
  unsigned blocks() const { return blocks_; }
  unsigned threads() const { return threads_; }

  template <class F>
  void ForEachThread(F f) {
    if (doubles::ThreadsBackwards()) {
      for (unsigned t = threads_; t-- > 0;) f(t);
    } else {
      for (unsigned t = 0; t < threads_; ++t) f(t);
    }
  }

  template <class T, class Combine>
  T Fold(PerThread<T>& x, Combine combine) {
    T parts[kMaxThreads];
    for (unsigned t = 0; t < threads_; ++t) parts[t] = x[t];
    for (unsigned half = threads_ / 2; half != 0; half /= 2) {
      for (unsigned t = 0; t < half; ++t) parts[t] = combine(parts[t], parts[t + half]);
    }
    return parts[0];
  }
  template <class T>
  T Sum(PerThread<T>& x) {
    return Fold(x, [](T a, T b) { return a + b; });
  }

  template <unsigned kSize, class T, class Combine>
  void FoldGroups(PerThread<T>& x, Combine combine) {
    static_assert(kSize <= 32 && (kSize & (kSize - 1)) == 0);
    if (threads_ % 32 != 0) doubles::WarpInPart(threads_);
    for (unsigned first = 0; first < threads_; first += kSize) {
      for (unsigned half = kSize / 2; half != 0; half /= 2) {
        for (unsigned t = first; t < first + half; ++t) x[t] = combine(x[t], x[t + half]);
      }
      for (unsigned t = first + 1; t < first + kSize; ++t) x[t] = x[first];
    }
  }

 private:
  const unsigned index_, blocks_, threads_;
};

// Begins as NaNs.
template <class T, size_t kSize>
class SharedArray {
 public:
  SharedArray() { std::memset(elements_, 0xff, sizeof elements_); }
  T& operator[](size_t i) {
    if (i >= kSize) doubles::OutOfRange(i, kSize);
    return elements_[i];
  }

 private:
  T elements_[kSize];
};

#define ZS_SHARED(type, name, size) SharedArray<type, size> name

#endif

}  // namespace zeroshard::device::cuda

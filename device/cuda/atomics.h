// Atomic operations on integers, for kernels: their results depend on no order. There are none on floats.
//
// Example:
//   AtomicAdd(words[3], digit);
#pragma once

#include <cstdint>

#include "zeroshard/device/cuda/launch.h"

namespace zeroshard::device::cuda {

ZS_DEVICE void AtomicAdd(int64_t& to, int64_t value) {
#if defined(__CUDACC__)
  atomicAdd(reinterpret_cast<unsigned long long*>(&to), static_cast<unsigned long long>(value));
#else
  to += value;
#endif
}

ZS_DEVICE void AtomicMax(uint32_t& to, uint32_t value) {
#if defined(__CUDACC__)
  atomicMax(&to, value);
#else
  if (value > to) to = value;
#endif
}

}  // namespace zeroshard::device::cuda

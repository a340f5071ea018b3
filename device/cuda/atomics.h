// Atomic operations on integers, for kernels: their results depend on no order. There are none on floats.
//
// Example:
//   AtomicAdd(words[3], digit);
#pragma once

#include <cstdint>

#include "zeroshard/device/cuda/launch.h"

namespace zeroshard::device::cuda {

// Gives what was there before.
ZS_DEVICE int64_t AtomicAdd(int64_t& to, int64_t value) {
#if defined(__CUDACC__)
  return static_cast<int64_t>(atomicAdd(reinterpret_cast<unsigned long long*>(&to), static_cast<unsigned long long>(value)));
#else
  const int64_t before = to;
  to += value;
  return before;
#endif
}

ZS_DEVICE void AtomicMax(uint32_t& to, uint32_t value) {
#if defined(__CUDACC__)
  atomicMax(&to, value);
#else
  if (value > to) to = value;
#endif
}

// Before an atomic operation: a thread of another block that sees it, and fences after it, sees what this block wrote until its last
// phase ended.
ZS_DEVICE void FenceBlocks() {
#if defined(__CUDACC__)
  __threadfence();
#endif
}

}  // namespace zeroshard::device::cuda

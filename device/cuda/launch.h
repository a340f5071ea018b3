// The one seam between our kernels and what runs them: Launch (a kernel of threads) and LaunchBlocks (of blocks, block.h).
//
// A kernel is a ZS_DEVICE function that takes a Thread or a Block&, then values and Declared memory (declared.h). nvcc makes a launch of
// it; the host's compiler queues a loop over the same grid on the double of the CUDA runtime, in the same order of sums. Both return at
// once, allocate nothing on a GPU, and give the launch's error.
//
// Only .cu.cc files include this. What cannot be shared (wgmma, TMA) says so where it stands, under __CUDACC__.
//
// Example:
//   cudaError_t FillFloats(cudaStream_t stream, device::Out y, float value) {
//     return Launch<Fill>(stream, GridFor(y.array.elements()), Writes<float>(y), value);
//   }
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "zeroshard/device/cuda/block.h"
#include "zeroshard/device/cuda/declared.h"
#include "zeroshard/device/cuda/kernel_list.h"
#include "zeroshard/device/vendor_scope.h"
#if !defined(__CUDACC__)
#include "zeroshard/device/cuda/doubles/launch_on_double.h"
#endif

namespace zeroshard::device::cuda {

struct Grid {
  unsigned blocks;
  unsigned threads;  // of a block; a power of two up to kMaxThreads
};

// For a loop over `elements` with Thread::Stride: one element a thread, up to 8 blocks of 256 on each of 132 processors.
inline Grid GridFor(int64_t elements) {
  constexpr int64_t kThreads = 256, kMaxBlocks = 1056;
  return {static_cast<unsigned>(std::clamp<int64_t>((elements + kThreads - 1) / kThreads, 1, kMaxBlocks)), kThreads};
}

// Which thread of a launch this is.
struct Thread {
  unsigned block, index;     // index: within its block
  unsigned blocks, threads;  // of the grid, of a block

  ZS_DEVICE size_t Global() const { return static_cast<size_t>(block) * threads + index; }
  ZS_DEVICE size_t Stride() const { return static_cast<size_t>(blocks) * threads; }
};

namespace internal {

// "... [with auto kKernel = zeroshard::device::cuda::Fill ...]", as the compiler writes it.
template <auto kKernel>
const char* NameOf() {
  return __PRETTY_FUNCTION__;
}

inline bool Fits(Grid grid, unsigned most_threads) {
  return grid.blocks > 0 && grid.threads > 0 && grid.threads <= most_threads && (grid.threads & (grid.threads - 1)) == 0;
}

}  // namespace internal

#if defined(__CUDACC__)

namespace internal {

template <auto kKernel, unsigned kMostThreads, class... Args>
__global__ void __launch_bounds__(kMostThreads, 1) ThreadKernel(Args... args) {
  kKernel(Thread{blockIdx.x, threadIdx.x, gridDim.x, blockDim.x}, args...);
}
template <auto kKernel, unsigned kMostThreads, class... Args>
__global__ void __launch_bounds__(kMostThreads, 1) BlockKernel(Args... args) {
  Block block;
  kKernel(block, args...);
}

template <auto kKernel, auto kGlobal>
inline const KernelEntry kEntry{NameOf<kKernel>(), reinterpret_cast<const void*>(kGlobal)};

template <auto kKernel, auto kGlobal, class... Args>
cudaError_t Launch(cudaStream_t stream, Grid grid, unsigned most_threads, Args... args) {
  static_assert((!std::is_pointer_v<Args> && ...), "device memory travels as In, Out or InOut");
  if (!Fits(grid, most_threads)) return cudaErrorInvalidConfiguration;
  static_cast<void>(kEntry<kKernel, kGlobal>.kernel());
  const VendorScope scope;
  kGlobal<<<grid.blocks, grid.threads, 0, stream>>>(args...);
  return cudaGetLastError();
}

}  // namespace internal

#else

namespace internal {

template <auto kKernel>
inline const KernelEntry kEntry{NameOf<kKernel>(), reinterpret_cast<const void*>(kKernel)};

}  // namespace internal

#endif

// kKernel(Thread, args...) for each thread of the grid. kMostThreads bounds grid.threads, and so the registers of a thread.
template <auto kKernel, unsigned kMostThreads = 256, class... Args>
cudaError_t Launch(cudaStream_t stream, Grid grid, Args... args) {
#if defined(__CUDACC__)
  return internal::Launch<kKernel, internal::ThreadKernel<kKernel, kMostThreads, Args...>>(stream, grid, kMostThreads,
                                                                                           args...);
#else
  if (!internal::Fits(grid, kMostThreads)) return cudaErrorInvalidConfiguration;
  const auto loop = [grid](const auto&... resolved) {
    for (unsigned b = 0; b < grid.blocks; ++b) {
      for (unsigned t = 0; t < grid.threads; ++t) kKernel(Thread{b, t, grid.blocks, grid.threads}, resolved...);
    }
  };
  const VendorScope scope;
  return doubles::QueueKernel(stream, internal::kEntry<kKernel>.kernel(), loop, args...);
#endif
}

// kKernel(Block&, args...) for each block of the grid.
template <auto kKernel, unsigned kMostThreads = 256, class... Args>
cudaError_t LaunchBlocks(cudaStream_t stream, Grid grid, Args... args) {
#if defined(__CUDACC__)
  return internal::Launch<kKernel, internal::BlockKernel<kKernel, kMostThreads, Args...>>(stream, grid, kMostThreads,
                                                                                          args...);
#else
  if (!internal::Fits(grid, kMostThreads)) return cudaErrorInvalidConfiguration;
  const auto loop = [grid](const auto&... resolved) {
    for (unsigned b = 0; b < grid.blocks; ++b) {
      Block block(b, grid.blocks, grid.threads);
      kKernel(block, resolved...);
    }
  };
  const VendorScope scope;
  return doubles::QueueKernel(stream, internal::kEntry<kKernel>.kernel(), loop, args...);
#endif
}

}  // namespace zeroshard::device::cuda

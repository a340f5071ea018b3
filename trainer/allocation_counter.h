// Counts what is allocated on the heap, by rank, and by whose code: ours or a vendor library's.
//
// A program that links this library has malloc, calloc, realloc and the aligned forms counted (operator new calls malloc). An
// allocation is ours if it is made on a marked thread (device/our_thread.h) outside device::VendorScope. Under sanitizers, which
// have a malloc of their own, nothing is counted and `Counting()` says so.
//
// Example:
//   const AllocationCounts before = AllocationsOf(&device);
//   ...a step...
//   AllocationsOf(&device).ours - before.ours;         // 0
#pragma once

#include <cstdint>

namespace zeroshard::trainer {

struct AllocationCounts {
  int64_t ours = 0;
  int64_t vendor = 0;  // in VendorScope on the rank's threads, and on all unmarked threads of the process
};

// Whether allocations are counted in this build.
bool CountingAllocations();

// Since the process began, of the rank whose threads are marked with `owner`. The first 256 owners have counts of their own.
AllocationCounts AllocationsOf(const void* owner);

// Bytes that are allocated on the heap of the process now.
int64_t LiveHeapBytes();

}  // namespace zeroshard::trainer

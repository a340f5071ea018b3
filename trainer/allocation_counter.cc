#include "zeroshard/trainer/allocation_counter.h"

#include <malloc.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>

#include "zeroshard/device/our_thread.h"
#include "zeroshard/device/vendor_scope.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ZEROSHARD_COUNT_ALLOCATIONS 0
#else
#define ZEROSHARD_COUNT_ALLOCATIONS 1
#endif

namespace zeroshard::trainer {
namespace {

struct Slot {
  std::atomic<const void*> owner{nullptr};
  std::atomic<int64_t> ours{0};
  std::atomic<int64_t> vendor{0};
};

constinit std::array<Slot, 256> slots;
constinit std::atomic<int64_t> unmarked{0};

// The owner's slot: the first free one if it has none yet; null if all are taken.
Slot* SlotOf(const void* owner) {
  for (Slot& slot : slots) {
    const void* held = slot.owner.load(std::memory_order_acquire);
    if (held == nullptr && slot.owner.compare_exchange_strong(held, owner, std::memory_order_acq_rel)) return &slot;
    if (held == owner) return &slot;
  }
  return nullptr;
}

#if ZEROSHARD_COUNT_ALLOCATIONS
// Must not allocate.
void Count() {
  const void* owner = device::OurThread::owner();
  Slot* slot = owner == nullptr ? nullptr : SlotOf(owner);
  std::atomic<int64_t>& counter = slot == nullptr ? unmarked : device::VendorScope::Active() ? slot->vendor : slot->ours;
  counter.fetch_add(1, std::memory_order_relaxed);
}
#endif

}  // namespace

bool CountingAllocations() { return ZEROSHARD_COUNT_ALLOCATIONS != 0; }

AllocationCounts AllocationsOf(const void* owner) {
  const Slot* slot = SlotOf(owner);
  AllocationCounts counts;
  if (slot != nullptr) {
    counts.ours = slot->ours.load(std::memory_order_relaxed);
    counts.vendor = slot->vendor.load(std::memory_order_relaxed);
  }
  counts.vendor += unmarked.load(std::memory_order_relaxed);
  return counts;
}

int64_t LiveHeapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks) + static_cast<int64_t>(info.hblkhd);
}

}  // namespace zeroshard::trainer

#if ZEROSHARD_COUNT_ALLOCATIONS
// glibc's own, under the names by which a replacement may call them.
extern "C" {
void* __libc_malloc(size_t bytes);                      // NOLINT(bugprone-reserved-identifier)
void* __libc_calloc(size_t count, size_t bytes);        // NOLINT(bugprone-reserved-identifier)
void* __libc_realloc(void* old, size_t bytes);          // NOLINT(bugprone-reserved-identifier)
void* __libc_memalign(size_t alignment, size_t bytes);  // NOLINT(bugprone-reserved-identifier)

void* malloc(size_t bytes) {
  zeroshard::trainer::Count();
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  zeroshard::trainer::Count();
  return __libc_calloc(count, bytes);
}
void* realloc(void* old, size_t bytes) {
  zeroshard::trainer::Count();
  return __libc_realloc(old, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  zeroshard::trainer::Count();
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** to, size_t alignment, size_t bytes) {
  if (alignment % sizeof(void*) != 0 || (alignment & (alignment - 1)) != 0 || alignment == 0) return EINVAL;
  void* memory = memalign(alignment, bytes);
  if (memory == nullptr) return ENOMEM;
  *to = memory;
  return 0;
}
}
#endif

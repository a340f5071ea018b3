#include "zeroshard/comm/operation_ring.h"

#include <algorithm>
#include <bit>

#include "zeroshard/device/prefetch.h"

namespace zeroshard::comm {
namespace {

// About 4 us of pauses: longer than a hand-over between running threads, shorter than a sleep and a wake.
constexpr int kSpins = 100;

constexpr size_t kLeastListCapacity = 4;

// Holds the caller until `value` is `target` or beyond.
void AwaitAtLeast(const std::atomic<uint64_t>& value, uint64_t target) {
  uint64_t seen = value.load(std::memory_order_acquire);
  for (int i = 0; i < kSpins && seen < target; ++i) {
    __builtin_ia32_pause();
    seen = value.load(std::memory_order_acquire);
  }
  while (seen < target) {
    value.wait(seen, std::memory_order_acquire);
    seen = value.load(std::memory_order_acquire);
  }
}

}  // namespace

Communicator::Ring::Ring(device::Device& device) : slots_(kRing), done_(device.MakeEvent()) {
  for (Slot& slot : slots_) slot.end = device.MakeEvent();
}

Communicator::Ring::Slot& Communicator::Ring::Claim() {
  const uint64_t ticket = next_++;
  Slot& slot = SlotOf(ticket);
  AwaitAtLeast(slot.finished, slot.issued.load(std::memory_order_relaxed));
  // Each field by itself: what is set as a whole costs more than all the rest. Others are the caller's.
  slot.operation.in_dtype = slot.operation.out_dtype = device::DType::kUint8;
  slot.operation.count = 0;
  slot.operation.record = {};
  slot.operation.ticket = ticket;
  slot.operation.end = slot.end.get();
  slot.behind = 0;
  slot.issued.store(ticket, std::memory_order_release);
  // After `issued`: who sees it gone also sees that the slot was taken over.
  slot.failed.store(false, std::memory_order_release);
  return slot;
}

void Communicator::Ring::PrefetchNext() const {
  const Slot& slot = slots_[next_ % kRing];
  device::PrefetchToWrite(slot);
  __builtin_prefetch(slot.end.get(), 1);
}

std::span<const Segment> Communicator::Ring::Keep(const Slot& slot, std::span<const Segment> segments) {
  if (segments.size() > list_capacity_) {
    list_capacity_ = std::max(kLeastListCapacity, std::bit_ceil(segments.size()));
    blocks_.push_back(std::make_unique<Segment[]>(kRing * list_capacity_));
  }
  if (segments.empty()) return {};
  const auto index = static_cast<size_t>(&slot - slots_.data());
  Segment* list = blocks_.back().get() + index * list_capacity_;
  std::copy(segments.begin(), segments.end(), list);
  return {list, segments.size()};
}

Communicator::Ring::Slot* Communicator::Ring::Find(uint64_t ticket) {
  Slot& slot = SlotOf(ticket);
  return slot.issued.load(std::memory_order_acquire) == ticket ? &slot : nullptr;
}

void Communicator::Ring::Finish(Slot& slot, const absl::Status& status) {
  if (!status.ok()) {
    std::lock_guard<std::mutex> lock(mutex_);
    slot.status = status;
    slot.failed.store(true, std::memory_order_release);
  }
  slot.finished.store(slot.operation.ticket, std::memory_order_release);
  slot.finished.notify_all();
}

std::optional<absl::Status> Communicator::Ring::Await(uint64_t ticket) {
  Slot& slot = SlotOf(ticket);
  AwaitAtLeast(slot.finished, ticket);
  absl::Status status;
  if (slot.failed.load(std::memory_order_acquire)) {
    std::lock_guard<std::mutex> lock(mutex_);
    status = slot.status;
  }
  if (slot.issued.load(std::memory_order_acquire) != ticket) return std::nullopt;
  return status;
}

}  // namespace zeroshard::comm

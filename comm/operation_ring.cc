#include "zeroshard/comm/operation_ring.h"

#include <algorithm>
#include <bit>

namespace zeroshard::comm {
namespace {

// About 4 us of pauses: longer than a hand-over between running threads, shorter than a sleep and a wake.
constexpr int kSpins = 100;

constexpr size_t kLeastListCapacity = 4;

}  // namespace

Communicator::Ring::Ring(device::Device& device) : slots_(kRing), done_(device.MakeEvent()) {
  for (Slot& slot : slots_) slot.end = device.MakeEvent();
}

std::span<const Segment> Communicator::Ring::KeepMany(const Slot& slot, std::span<const Segment> segments) {
  if (segments.size() > list_capacity_) {
    list_capacity_ = std::max(kLeastListCapacity, std::bit_ceil(segments.size()));
    blocks_.push_back(std::make_unique<Segment[]>(kRing * list_capacity_));
  }
  const auto index = static_cast<size_t>(&slot - slots_.data());
  Segment* list = blocks_.back().get() + index * list_capacity_;
  std::copy(segments.begin(), segments.end(), list);
  return {list, segments.size()};
}

void Communicator::Ring::Fail(Slot& slot, const absl::Status& status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  slot.status = status;
  slot.failed.store(true, std::memory_order_release);
}

absl::Status Communicator::Ring::ErrorOf(const Slot& slot) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return slot.status;
}

void Communicator::Ring::AwaitLong(const std::atomic<uint64_t>& value, uint64_t target) {
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

}  // namespace zeroshard::comm

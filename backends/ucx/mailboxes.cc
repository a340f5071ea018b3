#include "zeroshard/backends/ucx/mailboxes.h"

#include <algorithm>
#include <cstring>

#include "zeroshard/backends/ucx/futex.h"

namespace zeroshard::backends {
int64_t Mailboxes::Bytes(int world_size) {
  return static_cast<int64_t>(sizeof(Bell) + sizeof(Slot) * kSlots * static_cast<size_t>(world_size) * comm::kChannels);
}

Mailboxes::Mailboxes(const MappedRegion& region, int64_t offset, int rank, int world_size)
    : rank_(rank), put_(static_cast<size_t>(world_size) * comm::kChannels) {
  for (int owner = 0; owner < world_size; ++owner) {
    auto* at = static_cast<std::byte*>(owner == rank ? region.data() : region.address(owner)) + offset;
    bells_.push_back(reinterpret_cast<Bell*>(at));
    slots_.push_back(reinterpret_cast<Slot*>(at + sizeof(Bell)));
  }
}

bool Mailboxes::TryPut(int peer, comm::Channel channel, const void* data, int64_t bytes) {
  uint64_t& number = put_[BoxOf(peer, channel)];
  Slot& slot = SlotOf(peer, rank_, channel, number);
  if (slot.turn.load(std::memory_order_acquire) != EmptyTurn(number)) return false;
  slot.bytes = static_cast<uint32_t>(bytes);
  std::memcpy(slot.data.data(), data, static_cast<size_t>(bytes));
  slot.turn.store(EmptyTurn(number) + 1, std::memory_order_seq_cst);
  ++number;
  Bell& bell = *bells_[static_cast<size_t>(peer)];
  if (bell.sleeps.load(std::memory_order_seq_cst) != 0) Ring(bell);
  return true;
}

bool Mailboxes::TryTake(int peer, comm::Channel channel, uint64_t number, void* data, int64_t room, int64_t& bytes) {
  Slot& slot = SlotOf(rank_, peer, channel, number);
  if (slot.turn.load(std::memory_order_seq_cst) != EmptyTurn(number) + 1) return false;
  bytes = slot.bytes;
  std::memcpy(data, slot.data.data(), static_cast<size_t>(std::min({bytes, room, kMostBytes})));
  slot.turn.store(EmptyTurn(number) + 2, std::memory_order_release);
  return true;
}

void Mailboxes::Sleep(absl::FunctionRef<bool()> ready, std::chrono::nanoseconds most) {
  Bell& bell = *bells_[static_cast<size_t>(rank_)];
  const uint32_t rings = bell.rings.load(std::memory_order_seq_cst);
  bell.sleeps.store(1, std::memory_order_seq_cst);
  if (!ready()) {
    SleepOnFutex(bell.rings, rings, most);
  }
  bell.sleeps.store(0, std::memory_order_relaxed);
}

void Mailboxes::Ring(Bell& bell) {
  bell.rings.fetch_add(1, std::memory_order_seq_cst);
  WakeFutex(bell.rings);
}

}  // namespace zeroshard::backends

#include "zeroshard/backends/ucx/mailboxes.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "zeroshard/backends/ucx/futex.h"

namespace zeroshard::backends {
namespace {

// The sanitizer of threads knows no fences: there it is an operation that is one on x86.
void Fence() {
#ifdef __SANITIZE_THREAD__
  static std::atomic<int> word{0};
  word.fetch_add(1, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

// Begins to take a line from whoever has it, to write it. __builtin_prefetch means that only where the compiler knows that the
// processor has this instruction; one that has not passes over it.
void TakeLine(const void* line) { asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line))); }

// Word by word: what was written so a moment ago need not have come to the cache, as it must before it is read as a whole.
void CopyWords(const void* from, std::byte* to, int64_t bytes) {
  const auto* const words = static_cast<const std::byte*>(from);
  int64_t i = 0;
  for (uint64_t word; i + static_cast<int64_t>(sizeof(word)) <= bytes; i += sizeof(word)) {
    std::memcpy(&word, words + i, sizeof(word));
    std::memcpy(to + i, &word, sizeof(word));
  }
  if (i < bytes) std::memcpy(to + i, words + i, static_cast<size_t>(bytes - i));
}

}  // namespace

int64_t Mailboxes::Bytes(int world_size) {
  const size_t boxes = static_cast<size_t>(world_size) * comm::kChannels;
  return static_cast<int64_t>(sizeof(Bell) + boxes * (sizeof(Count) + kSlots * sizeof(Slot)));
}

Mailboxes::Mailboxes(const MappedRegion& region, int64_t offset, int rank, int world_size)
    : rank_(rank), ways_(static_cast<size_t>(world_size) * comm::kChannels, Way{.room = kSlots}) {
  for (int owner = 0; owner < world_size; ++owner) {
    auto* at = static_cast<std::byte*>(owner == rank ? region.data() : region.address(owner)) + offset;
    bells_.push_back(reinterpret_cast<Bell*>(at));
    counts_.push_back(reinterpret_cast<Count*>(at + sizeof(Bell)));
    slots_.push_back(reinterpret_cast<Slot*>(at + sizeof(Bell) + ways_.size() * sizeof(Count)));
  }
  unrung_.reserve(ways_.size() * kSlots);
}

bool Mailboxes::TryPut(int peer, comm::Channel channel, const void* data, int64_t bytes) {
  Way& way = ways_[BoxOf(peer, channel)];
  if (way.put >= way.room) {
    const Count& count = counts_[static_cast<size_t>(peer)][BoxOf(rank_, channel)];
    way.room = count.taken.load(std::memory_order_acquire) + kSlots;
    if (way.put >= way.room) return false;
  }
  Slot& slot = SlotOf(peer, rank_, channel, way.put);
  slot.bytes = static_cast<uint32_t>(bytes);
  CopyWords(data, slot.data.data(), bytes);
  slot.turn.store(TurnOf(way.put), std::memory_order_release);
  ++way.put;
  // The next one's line comes here while nobody waits for it; most messages fill no other.
  TakeLine(&SlotOf(peer, rank_, channel, way.put));
  if (unrung_.empty() || unrung_.back() != peer) unrung_.push_back(peer);
  return true;
}

void Mailboxes::Take(const Slot& slot, int peer, comm::Channel channel, uint64_t number, void* data, int64_t room,
                     int64_t& bytes) {
  bytes = slot.bytes;
  std::memcpy(data, slot.data.data(), static_cast<size_t>(std::min({bytes, room, kMostBytes})));
  Way& way = ways_[BoxOf(peer, channel)];
  way.early |= uint32_t{1} << (number - way.taken) % kSlots;
  const int done = std::countr_one(way.early);
  way.early >>= done;
  way.taken += static_cast<uint64_t>(done);
  counts_[static_cast<size_t>(rank_)][BoxOf(peer, channel)].taken.store(way.taken, std::memory_order_release);
}

void Mailboxes::WakeSleepers() {
  Fence();  // See "Note: the bell".
  for (const int peer : unrung_) {
    Bell& bell = *bells_[static_cast<size_t>(peer)];
    if (bell.sleeps.load(std::memory_order_relaxed) != 0) Ring(bell);
  }
  unrung_.clear();
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

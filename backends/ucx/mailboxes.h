// Mailboxes: short messages between ranks of one host, in memory that all of them share: headers, tokens, small results.
//
// Each rank owns a box for every sender and channel, of kSlots messages, and a bell that wakes it. The n-th message of a box lies
// in the slot of n mod kSlots, whose turn says so. One thread of a rank puts, takes and sleeps at a time; Ring comes from any.
//
// Note: who writes what. Only senders write slots, and only the owner counts what it has taken, on a line of its own that a sender
// reads when it knows of no room: so a message crosses from core to core once, and nothing crosses back.
//
// Note: the bell. A sleeper says that it sleeps, and then looks once more; who has something for it puts it there, and then looks
// whether it sleeps, in one order for all (sequentially consistent): never do both miss.
//
// Example:
//   if (!mail.TryPut(peer, Channel::kControl, &header, sizeof(header))) ...   // no room yet
//   mail.WakeReceivers();
//   while (!mail.TryTake(peer, Channel::kControl, number, &header, sizeof(header), bytes)) mail.Sleep(...);
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "zeroshard/backends/ucx/mapped_region.h"
#include "zeroshard/comm/transport.h"

namespace zeroshard::backends {

class Mailboxes {
 public:
  static constexpr int64_t kMostBytes = 120;  // of a message: a header
  static constexpr uint64_t kSlots = 16;
  static_assert(kSlots >= comm::kMaxInFlight);
  // Where message n of a box lies: not one behind the other, nor in any even stride, or the receiver's processor would fetch the next
  // ones ahead, out of the cache of the sender that is about to write them.
  static constexpr std::array<uint8_t, kSlots> kPlaces = {0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15};

  // Of each rank's part of the region, from `offset` on.
  static int64_t Bytes(int world_size);

  // `region` is mapped, holds zeros from `offset` on (a multiple of 64), and outlives this.
  Mailboxes(const MappedRegion& region, int64_t offset, int rank, int world_size);

  // The next message for `peer` on `channel`; false where there is no room. One that sleeps learns of it by WakeReceivers.
  bool TryPut(int peer, comm::Channel channel, const void* data, int64_t bytes);
  // Message `number`, from 0, of `peer` on `channel`: its first `room` bytes to `data`, its length to `bytes`; false where it has not
  // come. Each is taken once.
  bool TryTake(int peer, comm::Channel channel, uint64_t number, void* data, int64_t room, int64_t& bytes) {
    Slot& slot = SlotOf(rank_, peer, channel, number);
    if (slot.turn.load(std::memory_order_seq_cst) != TurnOf(number)) return false;
    Take(slot, peer, channel, number, data, room, bytes);
    return true;
  }
  // Wakes those for whom something was put since the last call, where they sleep. Before this rank waits for anything.
  void WakeReceivers() {
    if (!unrung_.empty()) WakeSleepers();
  }
  // Holds the caller until the bell rings, `ready()`, or the time is up.
  void Sleep(absl::FunctionRef<bool()> ready, std::chrono::nanoseconds most);
  // Wakes this rank.
  void Ring() { Ring(*bells_[static_cast<size_t>(rank_)]); }

 private:
  struct alignas(64) Bell {
    std::atomic<uint32_t> rings;  // a futex
    std::atomic<uint32_t> sleeps;
  };
  // Messages of a box that its owner has taken, all before it taken too.
  struct alignas(64) Count {
    std::atomic<uint64_t> taken;
  };
  struct alignas(64) Slot {
    std::atomic<uint32_t> turn;  // 0: none yet
    uint32_t bytes;
    std::array<std::byte, kMostBytes> data;
  };
  static_assert(sizeof(Slot) == 128);

  static size_t BoxOf(int sender, comm::Channel channel) {
    return static_cast<size_t>(sender) * comm::kChannels + static_cast<size_t>(channel);
  }
  Slot& SlotOf(int owner, int sender, comm::Channel channel, uint64_t number) {
    return slots_[static_cast<size_t>(owner)][BoxOf(sender, channel) * kSlots + kPlaces[number % kSlots]];
  }
  static uint32_t TurnOf(uint64_t number) { return static_cast<uint32_t>(number / kSlots) + 1; }
  static void Ring(Bell& bell);
  void Take(const Slot& slot, int peer, comm::Channel channel, uint64_t number, void* data, int64_t room, int64_t& bytes);
  void WakeSleepers();

  // What this rank knows of the box that it fills at a peer, and of the one that it empties.
  struct Way {
    uint64_t put = 0;    // messages so far
    uint64_t room = 0;   // how many may be put, in all
    uint64_t taken = 0;  // messages, all before it taken too
    uint32_t early = 0;  // bit i: message taken + i was taken before it
  };

  const int rank_;
  std::vector<Bell*> bells_;    // [world_size]: of each owner
  std::vector<Count*> counts_;  // [world_size]: of each owner
  std::vector<Slot*> slots_;    // [world_size]: of each owner
  std::vector<Way> ways_;       // [world_size * kChannels]
  std::vector<int> unrung_;     // peers that may sleep, with something put for them
};

}  // namespace zeroshard::backends

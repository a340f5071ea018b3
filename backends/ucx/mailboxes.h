// Mailboxes: short messages between ranks of one host, in memory that all of them share: headers, tokens, small results.
//
// Each rank owns a box for every sender and channel, of kSlots messages, and a bell that wakes it. The n-th message of a box lies
// in slot n mod kSlots; the slot's turn says whether it is empty (2 n / kSlots) or full (one more). One thread of a rank puts, takes
// and sleeps at a time; Ring comes from any.
//
// Note: the bell. A sleeper says that it sleeps, and then looks once more; who has something for it puts it there, and then looks
// whether it sleeps, in one order for all (sequentially consistent): never do both miss.
//
// Example:
//   if (!mail.TryPut(peer, Channel::kControl, &header, sizeof(header))) ...   // no room yet
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

  // Of each rank's part of the region, from `offset` on.
  static int64_t Bytes(int world_size);

  // `region` is mapped, holds zeros from `offset` on (a multiple of 64), and outlives this.
  Mailboxes(const MappedRegion& region, int64_t offset, int rank, int world_size);

  // The next message for `peer` on `channel`; false where there is no room.
  bool TryPut(int peer, comm::Channel channel, const void* data, int64_t bytes);
  // Message `number`, from 0, of `peer` on `channel`: its first `room` bytes to `data`, its length to `bytes`; false where it has not
  // come. Each is taken once.
  bool TryTake(int peer, comm::Channel channel, uint64_t number, void* data, int64_t room, int64_t& bytes);
  // Holds the caller until the bell rings, `ready()`, or the time is up.
  void Sleep(absl::FunctionRef<bool()> ready, std::chrono::nanoseconds most);
  // Wakes this rank.
  void Ring() { Ring(*bells_[static_cast<size_t>(rank_)]); }

 private:
  struct alignas(64) Bell {
    std::atomic<uint32_t> rings;  // a futex
    std::atomic<uint32_t> sleeps;
  };
  struct alignas(64) Slot {
    std::atomic<uint32_t> turn;
    uint32_t bytes;
    std::array<std::byte, kMostBytes> data;
  };
  static_assert(sizeof(Slot) == 128);

  static size_t BoxOf(int sender, comm::Channel channel) {
    return static_cast<size_t>(sender) * comm::kChannels + static_cast<size_t>(channel);
  }
  Slot& SlotOf(int owner, int sender, comm::Channel channel, uint64_t number) {
    return slots_[static_cast<size_t>(owner)][BoxOf(sender, channel) * kSlots + number % kSlots];
  }
  static uint32_t EmptyTurn(uint64_t number) { return static_cast<uint32_t>(2 * (number / kSlots)); }
  static void Ring(Bell& bell);

  const int rank_;
  std::vector<Bell*> bells_;   // [world_size]: of each owner
  std::vector<Slot*> slots_;   // [world_size]: of each owner
  std::vector<uint64_t> put_;  // [world_size * kChannels]: messages so far
};

}  // namespace zeroshard::backends

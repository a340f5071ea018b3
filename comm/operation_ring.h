// OperationRing: the operations of a communicator that are in flight, in a fixed number of slots.
//
// Ticket t lives in slot t % kRing, until ticket t + kRing takes it over. Nothing is allocated but where a list of segments is
// longer than any before: then room is made for one as long in every slot at once. One thread claims and publishes; any thread
// finishes, and waits.
//
// Example:
//   Slot& slot = ring.Claim();          // waits for the operation that had the slot
//   slot.operation = ...;
//   ring.Finish(slot, status);          // later, anywhere
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "zeroshard/comm/communicator.h"
#include "zeroshard/device/device.h"
#include "zeroshard/device/prefetch.h"

namespace zeroshard::comm {

class Communicator::Ring {
 public:
  struct alignas(64) Slot {
    Operation operation;
    std::unique_ptr<device::Event> end;
    uint64_t behind = 0;  // of an operation that was refused: the ticket of the last that was not; it ends with that one
    absl::Status status;  // under mutex_; OK where not `failed`
    std::atomic<bool> failed{false};    // the operation that has the slot, or, for a moment, the one that had it
    std::atomic<uint64_t> issued{0};    // the ticket that has the slot
    std::atomic<uint64_t> finished{0};  // the latest ticket that ended in it
  };

  explicit Ring(device::Device& device);

  // The slot of the next ticket; holds the caller until the operation that had it has ended. What CheckOperation adds to, and the
  // record, are reset; all else of a call is the caller's to set.
  Slot& Claim();
  // Brings the next slot's lines, which were last used long ago, while nobody waits for them.
  void PrefetchNext() const;
  // The slot of `ticket`, or null where a later one has taken it over.
  Slot* Find(uint64_t ticket);
  // A copy of `segments` that is good until the slot is taken over.
  std::span<const Segment> Keep(const Slot& slot, std::span<const Segment> segments) {
    return segments.empty() ? segments : KeepMany(slot, segments);
  }
  void Finish(Slot& slot, const absl::Status& status);
  // Holds the caller until `ticket` has ended. Its status, or nothing where its slot was taken over.
  std::optional<absl::Status> Await(uint64_t ticket);
  Slot& SlotOf(uint64_t ticket) { return slots_[ticket % kRing]; }

  // An event that is always done.
  const device::Event& done() const { return *done_; }

 private:
  std::span<const Segment> KeepMany(const Slot& slot, std::span<const Segment> segments);
  void Fail(Slot& slot, const absl::Status& status);
  absl::Status ErrorOf(const Slot& slot);
  // Holds the caller until `value` is `target` or beyond.
  static void AwaitAtLeast(const std::atomic<uint64_t>& value, uint64_t target) {
    if (value.load(std::memory_order_acquire) < target) AwaitLong(value, target);
  }
  static void AwaitLong(const std::atomic<uint64_t>& value, uint64_t target);

  std::vector<Slot> slots_;
  // Blocks of kRing lists, each block's lists longer than the last one's; operations in flight may still lie in an old one.
  std::vector<std::unique_ptr<Segment[]>> blocks_;
  size_t list_capacity_ = 0;
  std::unique_ptr<device::Event> done_;
  std::mutex mutex_;
  uint64_t next_ = 1;
};

// What every operation does is inline: one of a few bytes takes little longer than a call.
inline Communicator::Ring::Slot& Communicator::Ring::Claim() {
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

inline void Communicator::Ring::PrefetchNext() const {
  const Slot& slot = slots_[next_ % kRing];
  device::PrefetchToWrite(slot);
  __builtin_prefetch(slot.end.get(), 1);
}

inline Communicator::Ring::Slot* Communicator::Ring::Find(uint64_t ticket) {
  Slot& slot = SlotOf(ticket);
  return slot.issued.load(std::memory_order_acquire) == ticket ? &slot : nullptr;
}

inline void Communicator::Ring::Finish(Slot& slot, const absl::Status& status) {
  if (!status.ok()) Fail(slot, status);
  slot.finished.store(slot.operation.ticket, std::memory_order_release);
  slot.finished.notify_all();
}

inline std::optional<absl::Status> Communicator::Ring::Await(uint64_t ticket) {
  Slot& slot = SlotOf(ticket);
  AwaitAtLeast(slot.finished, ticket);
  std::optional<absl::Status> ended(absl::OkStatus());
  if (slot.failed.load(std::memory_order_acquire)) ended = ErrorOf(slot);
  if (slot.issued.load(std::memory_order_acquire) != ticket) ended.reset();
  return ended;
}

}  // namespace zeroshard::comm

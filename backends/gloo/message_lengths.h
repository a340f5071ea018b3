// MessageLengths: whether a peer gives the same length for a message as this rank.
//
// Gloo tells each end the length that the other has in mind before any byte of the message comes, and looks at it nowhere: a
// message that is longer than its receive ends the process, a shorter one is taken for whole. Here the peer's n-th announcement is
// held against this rank's n-th transfer, whichever comes first. Thread-safe; allocates nothing.
//
// Example:
//   lengths.Announce(1000);                  // on the I/O thread
//   lengths.Expect(800);                     // gives 1000: they differ
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>

namespace zeroshard::backends {

class MessageLengths {
 public:
  // This rank's next transfer is of `bytes`. Gives the announced length where that is known and differs.
  std::optional<int64_t> Expect(int64_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    ring_[expected_ % kRing] = expected_ < announced_ ? ring_[expected_ % kRing] : bytes;
    const bool known = expected_++ < announced_;
    if (!known || ring_[(expected_ - 1) % kRing] == bytes) return std::nullopt;
    return ring_[(expected_ - 1) % kRing];
  }

  struct Announcement {
    bool fits = true;      // false: more messages are announced than a peer may have under way
    bool differs = false;  // from the transfer that it meets
    uint64_t index = 0;    // of that transfer
  };
  // The peer has announced its next message.
  Announcement Announce(int64_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    const uint64_t index = announced_;
    if (index >= expected_ + kRing) return {.fits = false};
    ++announced_;
    if (index < expected_) return {.differs = ring_[index % kRing] != bytes, .index = index};
    ring_[index % kRing] = bytes;
    return {.index = index};
  }

 private:
  static constexpr uint64_t kRing = 128;

  std::mutex mutex_;
  uint64_t expected_ = 0;   // transfers so far
  uint64_t announced_ = 0;  // announcements so far
  // Of message n, at n % kRing: the length that the first of its two sides gave.
  std::array<int64_t, kRing> ring_ = {};
};

}  // namespace zeroshard::backends

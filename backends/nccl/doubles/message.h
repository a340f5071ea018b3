// A message from one rank of the double to another: through a channel of shared memory, a chunk at a time, as far as it can go now.
//
// Example:
//   Sending sending(channel, tag, bytes);
//   while (!sending.Step(source)) { ... }
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace zeroshard::backends::doubles {

// Which call a message belongs to: both sides must have made the same one.
struct Tag {
  int32_t call = 0;  // Call
  int32_t dtype = 0;
  int32_t op = 0;
  int32_t root = 0;
  int32_t registered = 0;  // how the call's memory is registered
  int32_t place = 0;       // in windows: which one, and where in it
  uint64_t count = 0;

  friend bool operator==(const Tag&, const Tag&) = default;
};

// One direction between two ranks.
struct Channel {
  static constexpr size_t kBytes = 128 << 10;
  std::atomic<uint64_t> put, taken;
  Tag tag;
  size_t bytes;
  alignas(64) std::byte data[kBytes];
};

class Sending {
 public:
  Sending(Channel& channel, const Tag& tag, size_t bytes) : channel_(&channel), tag_(tag), bytes_(bytes) {}
  // Sends on; `from` [bytes]. Whether all is sent.
  bool Step(const std::byte* from);

 private:
  Channel* channel_;
  Tag tag_;
  size_t bytes_, done_ = 0;
};

class Receiving {
 public:
  Receiving(Channel& channel, const Tag& tag, size_t bytes, int rank, int peer)
      : channel_(&channel), tag_(tag), bytes_(bytes), rank_(rank), peer_(peer) {}
  // Receives on; `to` [bytes]. Whether all is here. Ends the test at a message of another call.
  bool Step(std::byte* to);

 private:
  // Ends the test: what differs.
  [[noreturn]] void Differ(const Tag& theirs) const;

  Channel* channel_;
  Tag tag_;
  size_t bytes_, done_ = 0;
  int rank_, peer_;
};

}  // namespace zeroshard::backends::doubles

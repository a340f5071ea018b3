// Bytes that this rank sent, by column. A byte counts as sent by a rank when another rank receives it or reads it out of this
// rank's memory. Thread-safe.
//
// Example:
//   int64_t before = communicator.wire().sent_bytes(Traffic::kData);
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "zeroshard/comm/call_options.h"

namespace zeroshard::comm {

class WireLedger {
 public:
  void Add(Traffic traffic, int64_t bytes) {
    sent_[static_cast<size_t>(traffic)].fetch_add(bytes, std::memory_order_relaxed);
  }
  int64_t sent_bytes(Traffic traffic) const { return sent_[static_cast<size_t>(traffic)].load(std::memory_order_relaxed); }

 private:
  std::array<std::atomic<int64_t>, 2> sent_ = {};
};

}  // namespace zeroshard::comm

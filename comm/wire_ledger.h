// Bytes that this rank sent, by column. A byte counts as sent by a rank when another rank receives it or reads it out of this
// rank's memory, or this rank writes it into another's. What a communicator that was split off another one sends is counted in
// both ledgers. Thread-safe.
//
// Example:
//   int64_t before = communicator.wire().sent_bytes(Traffic::kData);
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "zeroshard/comm/call_options.h"

namespace zeroshard::comm {

class WireLedger {
 public:
  void Add(Traffic traffic, int64_t bytes) {
    sent_[static_cast<size_t>(traffic)].fetch_add(bytes, std::memory_order_relaxed);
    if (whole_ != nullptr) whole_->Add(traffic, bytes);
  }
  int64_t sent_bytes(Traffic traffic) const { return sent_[static_cast<size_t>(traffic)].load(std::memory_order_relaxed); }

  // Before the first Add.
  void CountIn(std::shared_ptr<WireLedger> whole) { whole_ = std::move(whole); }

 private:
  std::array<std::atomic<int64_t>, 2> sent_ = {};
  std::shared_ptr<WireLedger> whole_;
};

}  // namespace zeroshard::comm

// CpuEvent: an Event of device/cpu, whose streams run at once: it is done unless somebody called Expect and has not recorded
// yet.
//
// Waiting spins for some microseconds, then sleeps in the kernel, so that a waiting rank burns no core that another one
// needs.
//
// Example:
//   event->Expect();                    // the caller, before it hands work to the communicator's thread
//   stream.Record(*event);              // that thread, at the work's end
#pragma once

#include <atomic>
#include <cstdint>

#include "zeroshard/device/event.h"

namespace zeroshard::device {

class CpuEvent final : public Event {
 public:
  void Expect() override;
  bool Done() const override { return !IsExpected(state_.load(std::memory_order_acquire)); }
  void Synchronize() const override;

  int64_t recorded_ns() const override { return recorded_ns_.load(std::memory_order_relaxed); }

  // What Stream::Record does: all before this call is visible to whoever waited. `time_ns`: see recorded_ns.
  void MarkRecorded(int64_t time_ns = 0);

 private:
  static bool IsExpected(uint32_t state) { return (state & 1) != 0; }

  // Odd while a record is expected; grows, so that a waiter that slept through a record and the next Expect still wakes.
  std::atomic<uint32_t> state_{0};
  std::atomic<int64_t> recorded_ns_{0};
};

}  // namespace zeroshard::device

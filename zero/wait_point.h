// Every wait that orders an engine's computing against its collectives, by name: so that a test can leave out one at a time and see
// that it is caught, and so that a reader finds them in one list. All are waits of a stream or of a collective, none of the host.
//
// Example:
//   Order(WaitPoint::kGatherBeforeUse, gather, compute);
//   options.after = {After(WaitPoint::kReleaseBeforeGather, slot.released)};
#pragma once

#include <atomic>
#include <cstdint>

#include "zeroshard/comm/work.h"
#include "zeroshard/device/event.h"
#include "zeroshard/device/stream.h"

namespace zeroshard::zero {

enum class WaitPoint : uint8_t {
  kGatherBeforeUse,          // a unit computes once its parameters are there
  kReleaseBeforeGather,      // a slot is overwritten once its last unit has computed
  kUpdateBeforeGather,       // a shard is sent once the optimizer has written it
  kGatherBeforeUpdate,       // the optimizer writes a shard once all have read it
  kBackwardBeforeReduction,  // a bucket leaves once backward has filled it
  kReductionBeforeUse,       // a reduced gradient is used, and its memory filled anew, once it is there
  kNormBeforeSum,            // the ranks' norms are added once each has its own
  kSumBeforeScalars,         // scalars are derived once the norms are added
  kCopyBeforeResult,         // the host reads a step's numbers once they are copied
};
inline constexpr int kWaitPoints = 9;

namespace internal {
inline std::atomic<int> left_out_wait_point = -1;
}  // namespace internal

// Tests only: the engines of this process leave out that wait; a negative number leaves out none.
inline void LeaveOutWaitPoint(int point) { internal::left_out_wait_point.store(point); }

inline bool LeftOut(WaitPoint point) {
  return internal::left_out_wait_point.load(std::memory_order_relaxed) == static_cast<int>(point);
}

// Orders `stream` after `work`.
inline void Order(WaitPoint point, comm::Work& work, device::Stream& stream) {
  if (!LeftOut(point)) work.WaitOn(stream);
}

// For CallOptions::after.
inline const device::Event* After(WaitPoint point, const device::Event& event) { return LeftOut(point) ? nullptr : &event; }

}  // namespace zeroshard::zero

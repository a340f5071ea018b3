// What a watchdog looks for: a device that is broken, a deadline that has passed, an error that NCCL noticed, ranks that disagree, have given
// up, left or died.
//
// Example:
//   const Trouble trouble = look_out.Look(flights.oldest());
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "zeroshard/backends/nccl/comm_handle.h"
#include "zeroshard/backends/nccl/flights.h"
#include "zeroshard/backends/nccl/group_notes.h"
#include "zeroshard/comm/operation_header.h"
#include "zeroshard/comm/rank_watch.h"
#include "zeroshard/device/device.h"

namespace zeroshard::backends {

// What befell an operation, in full: the rank, the operation, its group (Communicator::group), its bytes, `why`, and who is missing
// where `watch` (which may be null) knows and `why` does not say so.
absl::Status Explained(const comm::OperationHeader& operation, const std::string& group, const absl::Status& why,
                       comm::RankWatch* watch);

struct Trouble {
  absl::Status why = absl::OkStatus();
  bool in_flight = false;  // it is about the oldest operation
};

class LookOut {
 public:
  // All outlive it. timeout: of an operation, from its start on the device.
  LookOut(device::Device& device, CommHandle& handle, GroupNotes& notes, absl::Duration timeout)
      : device_(device), handle_(handle), notes_(notes), timeout_(timeout) {}

  // For one thread, which calls it often: what costs something is looked at from time to time. After a deadline it asks the others, which
  // takes up to two seconds.
  Trouble Look(const std::optional<Flights::Oldest>& oldest);

 private:
  device::Device& device_;
  CommHandle& handle_;
  GroupNotes& notes_;
  const absl::Duration timeout_;
  absl::Time next_look_ = absl::InfinitePast();
  absl::Time next_look_for_the_dead_ = absl::InfinitePast();
};

}  // namespace zeroshard::backends

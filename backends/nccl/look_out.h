// What a watchdog looks for: a device that is broken, a deadline that has passed, an error that NCCL noticed, ranks that disagree, have given
// up, left or died. What only the Store knows is looked for by a thread of its own: nothing here waits long for a rank 0 that is silent.
//
// Example:
//   LookOut look_out(device, handle, notes, flights, timeout);
//   const Trouble trouble = look_out.Look(flights.oldest());
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "zeroshard/backends/nccl/comm_handle.h"
#include "zeroshard/backends/nccl/flights.h"
#include "zeroshard/backends/nccl/group_notes.h"
#include "zeroshard/backends/nccl/store_thread.h"
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
  std::optional<comm::OperationHeader> in_flight = {};  // the operation, then the oldest, that it is about
};

class LookOut {
 public:
  // All outlive it. timeout: of an operation, from its start on the device.
  LookOut(device::Device& device, CommHandle& handle, GroupNotes& notes, Flights& flights, absl::Duration timeout)
      : device_(device), handle_(handle), notes_(notes), flights_(flights), timeout_(timeout) {}

  // For one thread, which calls it often, with the oldest operation. After a deadline it asks the others, which takes up to kAnswerWithin.
  Trouble Look(const std::optional<Flights::Oldest>& oldest);

  // Tells the others (GroupNotes::GiveUp, Leave), where the Store takes it within kTellWithin. Leave waits for them, too.
  void GiveUp(const absl::Status& cause);
  void Leave(absl::Duration patience);

 private:
  static constexpr absl::Duration kAnswerWithin = absl::Seconds(4);
  static constexpr absl::Duration kTellWithin = absl::Seconds(2);

  absl::Status WhoIsLate(const comm::OperationHeader& operation);
  // On the thread that asks the Store.
  Trouble LookAtStore();

  device::Device& device_;
  CommHandle& handle_;
  GroupNotes& notes_;
  Flights& flights_;
  const absl::Duration timeout_;
  absl::Time next_look_ = absl::InfinitePast();

  absl::Time next_look_for_the_dead_ = absl::InfinitePast();  // of the thread that asks the Store
  std::mutex mutex_;
  Trouble news_;  // of that thread, until it is taken
  StoreThread store_{[this] {
    const Trouble news = LookAtStore();
    std::lock_guard<std::mutex> lock(mutex_);
    news_ = news;
  }};
};

}  // namespace zeroshard::backends

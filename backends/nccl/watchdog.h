// The watchdog of a NCCL communicator: a thread that notices ends, deadlines, dead peers and disagreement, and alone aborts ("Note: How an
// operation ends" in nccl_communicator.h).
//
// Note: What it waits for. For nothing but what is bounded: who does not answer (a peer, the Store, NCCL) is why an abort is wanted. So it
// asks the device, and what is said to and asked of the Store goes by a thread of its own (look_out.h).
//
// Note: How a communicator is dropped. One whose ranks have all ended the finalize is destroyed by all together. Others are aborted: that
// waits for nobody. But where a rank's part of an operation has ended, others' may not have: NCCL's threads may still be sending for them. So
// it first waits, a while, until all have left.
//
// Example:
//   Watchdog watchdog({.communicator = this, .watched = this, .flights = &flights, ...});
//   watchdog.FailBy(header, why);            // from any thread
//   if (watchdog.TakeLeave()) ... ncclCommDestroy ...
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "zeroshard/backends/nccl/comm_handle.h"
#include "zeroshard/backends/nccl/flights.h"
#include "zeroshard/backends/nccl/group_notes.h"
#include "zeroshard/backends/nccl/look_out.h"
#include "zeroshard/comm/communicator.h"
#include "zeroshard/comm/operation_header.h"
#include "zeroshard/device/stream.h"

namespace zeroshard::backends {

// What of a communicator only itself may do.
class Watched {
 public:
  virtual ~Watched() = default;
  virtual void HasFailed(const absl::Status& cause) = 0;
  virtual void HasEnded(comm::Operation& operation, const absl::Status& status) = 0;
};

struct WatchOptions {
  const comm::Communicator* communicator = nullptr;
  Watched* watched = nullptr;  // the same
  device::Stream* stream = nullptr;
  std::shared_ptr<CommHandle> handle;
  GroupNotes* notes = nullptr;
  Flights* flights = nullptr;
  absl::Duration timeout;         // of an operation, from its start on the device
  absl::Duration abort_patience;  // after which the process ends
  absl::Duration leave_patience;  // how long one that is dropped waits for the other ranks to drop it
};

class Watchdog {
 public:
  // All that is pointed at outlives it.
  explicit Watchdog(const WatchOptions& options);
  // After TakeLeave.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Finishes what the device has come past, in order. Of a failed communicator nothing before the abort is through, and then all, with
  // its error.
  void Reap() { Reap(/*all=*/false); }
  // The communicator fails by what happened to that operation.
  void FailBy(const comm::OperationHeader& operation, const absl::Status& why);
  // The communicator has failed: nobody is to wait for other ranks any more.
  void GiveUp();
  const std::atomic<bool>& giving_up() const { return giving_up_; }
  // No operation comes any more; of a communicator that has not failed all have ended. True: all ranks take leave, and are to destroy it
  // together. Else it is aborted ("Note: How a communicator is dropped").
  bool TakeLeave();

 private:
  absl::Status status() const { return options_.communicator->status(); }
  bool all_well() const { return !leave_ && status().ok(); }
  void Reap(bool all);
  void Watch();
  void Look();
  void LookForTrouble();
  void AbortComm();

  const WatchOptions options_;
  LookOut look_out_;

  std::mutex reap_mutex_;  // one thread finishes at a time
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;

  std::atomic<bool> giving_up_{false};
  std::atomic<bool> leave_{false};
  std::atomic<bool> aborted_{false};
  std::atomic<bool> left_in_peace_{false};
  absl::Time aborted_at_ = absl::InfinitePast();
  std::thread thread_;
};

}  // namespace zeroshard::backends

// CommHandle: one ncclComm_t, who may call it, and how it ends.
//
// NCCL lets a communicator be aborted while a call of it blocks, but not called once it is gone: so whoever calls goes in through Enter,
// and Abort closes the door first.
//
// Example:
//   if (handle.Enter()) {
//     ... calls of handle.get() ...
//     handle.Leave();
//   }
#pragma once

#include <nccl.h>

#include <condition_variable>
#include <memory>
#include <mutex>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace zeroshard::backends {

// For whoever Abort has told that NCCL does not come back: neither does anything that waits for the device. Says why on the standard error, and
// ends the process with the tools' exit code for a lost peer.
[[noreturn]] void LeaveProcess(const absl::Status& cause, absl::Duration patience);

class CommHandle {
 public:
  // `comm` is made, and has a device.
  explicit CommHandle(ncclComm_t comm);
  CommHandle(const CommHandle&) = delete;
  CommHandle& operator=(const CommHandle&) = delete;

  ncclComm_t get() const { return comm_; }

  // Of one thread at a time. False: it is gone, or going.
  bool Enter();
  void Leave();
  // Whether it is gone, or going: whoever is inside is to leave.
  bool closed();
  // What NCCL noticed by itself; OK where it is gone.
  absl::Status AsyncError();

  // ncclCommAbort, on a thread of its own with the communicator's device. False: NCCL has not come back from it within `patience`. A second
  // call does nothing.
  bool Abort(absl::Duration patience);
  // After an Enter that was refused: holds the caller until NCCL is done with the communicator, and so with what was registered for it.
  // False: it is not within `patience`.
  bool AwaitEnd(absl::Duration patience);
  // ncclCommDestroy; nothing is in flight, and all ranks do it. On the thread that calls NCCL.
  absl::Status Destroy();

 private:
  // Outlives this where NCCL does not come back.
  struct End {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;

    void Set();
  };

  const ncclComm_t comm_;
  int device_ = 0;
  const std::shared_ptr<End> end_;
  std::mutex mutex_;
  std::condition_variable left_;
  bool inside_ = false;
  bool closed_ = false;
};

}  // namespace zeroshard::backends

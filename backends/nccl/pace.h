// Pace: that no more is queued on a NCCL communicator's stream than the device takes.
//
// Note: How much is queued. About a thousand entries (launches, events, waits) fit into a stream's queue, and behind a full one a call of CUDA
// waits for the device, where neither a deadline nor an abort is heard: at most kWindows windows of kWindow are queued, and whatever one
// group of NCCL's calls takes. Who queues more waits before it, on our side, asking the device now and then; so one collective may
// have any number of segments. That ranks wait at unlike times does not matter: what each waits for has been called by it as a whole.
//
// For the thread that calls NCCL.
//
// Example:
//   ZS_RETURN_IF_ERROR(pace.Take(1));
//   ... one launch ...
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "zeroshard/backends/nccl/comm_handle.h"
#include "zeroshard/device/event.h"
#include "zeroshard/device/stream.h"

namespace zeroshard::backends {

class Pace {
 public:
  static constexpr int kWindow = 128;
  static constexpr size_t kWindows = 4;

  // Both outlive it.
  Pace(device::Stream& stream, CommHandle& handle);

  // Before `entries` are queued: waits until there is room for them.
  // Errors: kCancelled the communicator is being aborted: nothing more is to be queued.
  absl::Status Take(int entries);
  // The same where it is too late to wait.
  void Add(int entries) { in_window_ += entries; }

 private:
  device::Stream& stream_;
  CommHandle& handle_;
  std::array<std::unique_ptr<device::Event>, kWindows> ends_;  // of the windows before; the oldest at `oldest_`
  size_t oldest_ = 0;
  int in_window_ = 0;
};

}  // namespace zeroshard::backends

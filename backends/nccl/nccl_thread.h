// The one thread of a rank that calls NCCL, for all of the rank's communicators: operations and rare calls in the order in which they
// were posted, so that all ranks call in one order.
//
// A call that NCCL does not come back from (a peer that never joins) is left behind when its time is over: whoever waited gets an
// error, and the thread is given up with all that it holds. The process is to end then.
//
// Example:
//   NcclThread thread(device, [] { cudaSetDevice(0); });
//   ZS_RETURN_IF_ERROR(thread.Call("ncclCommSplit", [state] { ...; return absl::OkStatus(); }, timeout));
//   thread.Post(communicator, operation);           // allocates nothing
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "zeroshard/comm/operation.h"
#include "zeroshard/device/device.h"

namespace zeroshard::backends {

class NcclThread {
 public:
  // Who carries an operation out, on the thread.
  class Issuer {
   public:
    virtual ~Issuer() = default;
    virtual void Issue(comm::Operation& operation) = 0;
  };

  // `begin` runs first on the thread. `device`: the rank's, for the count of allocations.
  NcclThread(device::Device& device, std::function<void()> begin);
  // Waits for what was posted; no longer than 10 s, and 1 s after a Call that was left behind.
  ~NcclThread();
  NcclThread(const NcclThread&) = delete;
  NcclThread& operator=(const NcclThread&) = delete;

  // Room for so many more operations at once: for a communicator's ring. Before its first Post.
  void MakeRoom(size_t operations);
  // Both outlive the operation.
  void Post(Issuer& issuer, comm::Operation& operation);
  // Runs `work` after all that was posted, and waits for it. `work` owns what it uses: it may still run after the time is over.
  // Errors: its own; kDeadlineExceeded, naming `what`.
  absl::Status Call(const char* what, std::function<absl::Status()> work, absl::Duration timeout);

 private:
  struct State;
  const std::shared_ptr<State> state_;
};

}  // namespace zeroshard::backends

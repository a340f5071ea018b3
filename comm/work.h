// A collective in flight: a light handle on a slot of its communicator's ring.
//
// Copyable; a copy speaks of the same operation. It stays valid for kRing further operations of the communicator, after which it
// answers as the finished operation (an error is kept by the communicator). It must not outlive the Communicator.
//
// Example:
//   Work work = communicator.AllReduce(x, x, ReduceOp::kSum);
//   ...compute...
//   work.WaitOn(compute);                       // orders the stream; says nothing of errors
//   ZS_RETURN_IF_ERROR(work.Wait());            // the host; the operation's error, or the communicator's first
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "zeroshard/device/event.h"
#include "zeroshard/device/stream.h"

namespace zeroshard::comm {

class Communicator;

class Work {
 public:
  // The work of no operation: done, OK.
  Work() = default;

  // Done when the operation has ended, well or badly. One that was refused ends with those that were issued before it.
  const device::Event& event() const;
  // Orders `stream` after the operation. Reports no error.
  void WaitOn(device::Stream& stream);
  // Holds the host until the operation has ended.
  // Errors: the communicator's first error (see communicator.h).
  [[nodiscard]] absl::Status Wait();

 private:
  friend class Communicator;
  Work(Communicator* communicator, uint64_t ticket) : communicator_(communicator), ticket_(ticket) {}

  Communicator* communicator_ = nullptr;
  uint64_t ticket_ = 0;
};

}  // namespace zeroshard::comm

// Communicators that were split off one another: they fail together, so that no rank waits in one of them for a rank that it has
// already lost in another.
//
// Example:
//   family->Join(*part);
//   ...
//   family->Spread(cause);      // whoever has not failed yet does
#pragma once

#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "zeroshard/comm/communicator.h"

namespace zeroshard::comm {

// Thread-safe.
class Communicator::Family {
 public:
  void Join(Communicator& member);
  // Afterwards nobody here calls the member any more.
  void Leave(Communicator& member);
  // Every member that has not failed yet fails with `cause`, and aborts.
  void Spread(const absl::Status& cause);

 private:
  std::mutex mutex_;
  std::vector<Communicator*> members_;
};

}  // namespace zeroshard::comm

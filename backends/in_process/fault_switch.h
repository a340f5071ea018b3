// FaultSwitch: strikes ranks of an in-process group while it runs. From any thread; lets go of the group when it is dropped.
//
// Example:
//   FaultSwitch faults;
//   auto ranks = MakeInProcessGroup(devices, {.fault_switch = &faults});
//   faults.Kill(1);      // sends nothing any more; the others notice at once, as of a killed process
//   faults.Freeze(2);    // stands still, as a stopped process: nobody notices
//   faults.Thaw(2);
#pragma once

#include <memory>
#include <utility>

#include "zeroshard/backends/in_process/in_process_transport.h"

namespace zeroshard::backends {

class FaultSwitch {
 public:
  void Hold(std::shared_ptr<InProcessGroup> group) { group_ = std::move(group); }

  void Kill(int rank) { group_->Kill(rank); }
  void Freeze(int rank) { group_->Freeze(rank); }
  void Thaw(int rank) { group_->Thaw(rank); }

 private:
  std::shared_ptr<InProcessGroup> group_;
};

}  // namespace zeroshard::backends

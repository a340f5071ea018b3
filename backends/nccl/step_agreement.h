// That ranks call the same operations: each is agreed upon at first, a hash of each step's afterwards ("Note: Steps" in
// nccl_communicator.h).
//
// Example:
//   ZS_RETURN_IF_ERROR(steps.Agree(header, step, stop));   // on the thread that calls NCCL, before it sees the operation
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "zeroshard/backends/nccl/group_notes.h"
#include "zeroshard/comm/operation_header.h"

namespace zeroshard::backends {

class StepAgreement {
 public:
  // `notes` outlives it.
  StepAgreement(GroupNotes& notes, absl::Duration timeout) : notes_(notes), timeout_(timeout) {}

  // step: as the device's recorder counts; -1: nobody counts. Operations come in order. Errors: as GroupNotes::Agree.
  absl::Status Agree(const comm::OperationHeader& mine, int64_t step, const std::atomic<bool>& stop);

 private:
  GroupNotes& notes_;
  const absl::Duration timeout_;
  int64_t step_ = -1;
  uint64_t hash_ = 0;  // of all that was not agreed upon
};

}  // namespace zeroshard::backends

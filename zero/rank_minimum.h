// The least of one number over ranks, for what ranks settle between steps: a collective that waits, in memory of its own.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(auto minimum, RankMinimum::Create(communicator, compute));
//   ZS_ASSIGN_OR_RETURN(int64_t first, minimum->Of(mine));
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "zeroshard/comm/communicator.h"
#include "zeroshard/device/buffer.h"
#include "zeroshard/device/event.h"
#include "zeroshard/device/stream.h"

namespace zeroshard::zero {

class RankMinimum {
 public:
  // Communicator and stream outlive it. Errors: kResourceExhausted.
  static absl::StatusOr<std::unique_ptr<RankMinimum>> Create(comm::Communicator& communicator, device::Stream& compute);
  // Device memory that one takes.
  static constexpr int64_t kBytes = sizeof(int64_t);

  // Collective; waits. |value| is at most 2^52. Errors: the communicator's.
  absl::StatusOr<int64_t> Of(int64_t value);
  // Collective; waits. Whether all ranks give one value, |value| at most 2^52.
  absl::StatusOr<bool> AllGive(int64_t value);

 private:
  RankMinimum(comm::Communicator& communicator, device::Stream& compute);

  comm::Communicator* communicator_;
  device::Stream* compute_;
  device::Buffer word_;
  std::unique_ptr<device::Event> filled_;
};

}  // namespace zeroshard::zero

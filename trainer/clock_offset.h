// How far a rank's clock is ahead of rank 0's, so that times of several hosts fit on one axis.
//
// Ranks gather their clocks again and again: what rank 0 read before a gather was read before this rank had its result, and the
// other way about. Each round bounds the offset from both sides; the bounds of all rounds together are as close as the fastest
// gather. Bounds that allow 0 are taken for a clock that the ranks share.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(int64_t ahead_ns, MeasureClockOffset(communicator));
//   int64_t time_of_rank_0 = device::NowNs() - ahead_ns;
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "zeroshard/comm/communicator.h"

namespace zeroshard::trainer {

// From bounds, in ns: 0 where they allow it, else their middle.
int64_t OffsetWithin(int64_t least, int64_t most);

// Collective. Nanoseconds; 0 on rank 0. Errors: the communicator's.
absl::StatusOr<int64_t> MeasureClockOffset(comm::Communicator& communicator);

}  // namespace zeroshard::trainer

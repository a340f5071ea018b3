// Ring all-gather: each rank hands on to the next what came from the one before, N - 1 times; (N-1)/N of the whole sent by each.
#pragma once

#include "absl/status/status.h"
#include "zeroshard/comm/schedules/exchange.h"
#include "zeroshard/comm/schedules/host_call.h"

namespace zeroshard::comm {

// Every rank's part of `out` to all others (all-gather, all-reduce's second half). This rank's own lies there.
absl::Status RingGatherParts(Exchange& exchange, const HostCall& call);

}  // namespace zeroshard::comm

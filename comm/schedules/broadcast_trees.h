// Broadcasts for many ranks, in ranks relative to the root.
//
// Binomial: a rank hands what it has to the ranks 2^k further on, log2(N) steps, no rank sends more than log2(N) counts.
// Scatter-all-gather: parts go down the same tree, each rank's subtree only, then around a ring: less than 2 counts a rank.
#pragma once

#include "absl/status/status.h"
#include "zeroshard/comm/schedules/exchange.h"
#include "zeroshard/comm/schedules/host_call.h"

namespace zeroshard::comm {

// The root's `out` to every rank's `out`; it lies there at the root.
absl::Status BinomialBroadcast(Exchange& exchange, const HostCall& call);
absl::Status ScatterGatherBroadcast(Exchange& exchange, const HostCall& call);

}  // namespace zeroshard::comm

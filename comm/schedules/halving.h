// Reductions up the tree (tree.h): recursive halving with distance doubling, for any number of ranks, and the same for one part,
// which is a binomial reduce. For many ranks: log2(N) steps.
//
// Ranks' inputs travel as they are, partial sums in fp32 (fp64 and integers in themselves), so that the bits are those of the
// direct schedules. With N a power of two a rank sends (N-1)/N of the whole.
#pragma once

#include "absl/status/status.h"
#include "zeroshard/comm/schedules/exchange.h"
#include "zeroshard/comm/schedules/host_call.h"

namespace zeroshard::comm {

// Reduce-scatter, and all-reduce's first half: this rank's part, reduced, where own_part.h says.
absl::Status HalvingReduceParts(Exchange& exchange, const HostCall& call);
absl::Status BinomialReduce(Exchange& exchange, const HostCall& call);

}  // namespace zeroshard::comm

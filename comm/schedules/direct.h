// Direct schedules: every peer's part is read once, straight from its owner. The default up to kMaxDirectRanks ranks of one host.
//
// Data that a rank sends, of a whole of B bytes over N ranks: reduce-scatter and all-gather (N-1)/N B; all-reduce both; reduce B,
// but the root nothing; broadcast (N-1) B at the root, else nothing. Each sum is ReduceParts over all ranks' parts: the one
// tree, rounded once. Steps: one; all-reduce by messages two.
//
// Where peers' memory is mapped, parts are summed and copied right out of it, an all-reduce's sums right into it, and tokens say when
// it is its owner's again; else they come as messages, and sums go through the exchange's scratch.
#pragma once

#include "absl/status/status.h"
#include "zeroshard/comm/schedules/exchange.h"
#include "zeroshard/comm/schedules/host_call.h"

namespace zeroshard::comm {

// By messages, or by mapped memory where exchange.mapped(). The call's kind is as the name says.
// Errors: those of Exchange::Wait.
absl::Status DirectReduceScatter(Exchange& exchange, const HostCall& call);
absl::Status DirectAllGather(Exchange& exchange, const HostCall& call);
absl::Status DirectAllReduce(Exchange& exchange, const HostCall& call);
absl::Status DirectReduce(Exchange& exchange, const HostCall& call);
absl::Status DirectBroadcast(Exchange& exchange, const HostCall& call);

// All-reduce where exchange.carried(): each rank sends its whole B to every other, with its header. Steps: none besides.
void ReduceCarried(Exchange& exchange, const HostCall& call);

}  // namespace zeroshard::comm

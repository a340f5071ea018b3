// Schedules of two levels, for ranks on several hosts: what crosses between hosts crosses once, and not once for each rank there.
//
// Of a whole of B bytes over H hosts of k ranks, a host sends to others: reduce-scatter and all-gather (H-1)/H B, all-reduce both,
// broadcast (H-1) B at the root's host; directly it is k times as much. A rank sends as much data as by the direct schedules
// (direct.h): what it sends less to other hosts it sends more within its own. But partial sums of two-byte floats travel in fp32
// between hosts, and broadcasts are handed on by the ranks in the root's place. Ranks of one place of all hosts talk to each other,
// and ranks of one host. Steps: two; all-reduce four.
#pragma once

#include "absl/status/status.h"
#include "zeroshard/comm/schedules/exchange.h"
#include "zeroshard/comm/schedules/host_call.h"
#include "zeroshard/comm/schedules/host_grid.h"

namespace zeroshard::comm {

// `grid` has two levels. Bits are those of the tree; sums only where grid.hosts_are_nodes(). Each rank's own part is in `out` where
// parts are gathered, and the root's whole where it is broadcast. Errors: those of Exchange::Wait.
absl::Status ReducePartsByHost(Exchange& exchange, const HostCall& call, const HostGrid& grid);
absl::Status GatherPartsByHost(Exchange& exchange, const HostCall& call, const HostGrid& grid);
absl::Status BroadcastByHost(Exchange& exchange, const HostCall& call, const HostGrid& grid);

}  // namespace zeroshard::comm

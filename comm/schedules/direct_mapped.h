// The direct schedules over mapped memory; see direct.h. Each ends on a rank when its peers have read what they want of it.
#pragma once

#include "absl/status/status.h"
#include "zeroshard/comm/schedules/exchange.h"
#include "zeroshard/comm/schedules/host_call.h"

namespace zeroshard::comm {

absl::Status ReducePartsMapped(Exchange& exchange, const HostCall& call);
// All-gather: parts come from peers' `in`. All-reduce: from their parts of `out`.
absl::Status GatherPartsMapped(Exchange& exchange, const HostCall& call);
absl::Status ReduceMapped(Exchange& exchange, const HostCall& call);
absl::Status BroadcastMapped(Exchange& exchange, const HostCall& call);

}  // namespace zeroshard::comm

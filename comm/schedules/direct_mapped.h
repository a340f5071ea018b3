// The direct schedules over mapped memory; see direct.h. Each ends on a rank when its peers are done with its memory.
#pragma once

#include "absl/status/status.h"
#include "zeroshard/comm/schedules/exchange.h"
#include "zeroshard/comm/schedules/host_call.h"

namespace zeroshard::comm {

absl::Status ReducePartsMapped(Exchange& exchange, const HostCall& call);
// Each rank sums its part, and writes it to all.
absl::Status AllReduceMapped(Exchange& exchange, const HostCall& call);
absl::Status GatherPartsMapped(Exchange& exchange, const HostCall& call);
absl::Status ReduceMapped(Exchange& exchange, const HostCall& call);
absl::Status BroadcastMapped(Exchange& exchange, const HostCall& call);

}  // namespace zeroshard::comm

// The direct schedules by messages; see direct.h.
#pragma once

#include "absl/status/status.h"
#include "zeroshard/comm/schedules/exchange.h"
#include "zeroshard/comm/schedules/host_call.h"

namespace zeroshard::comm {

// Every rank's reduction of its own part, to where PutOwnPart's is (reduce-scatter: out; all-reduce: its part of out).
absl::Status ReducePartsByMessages(Exchange& exchange, const HostCall& call);
// Every rank's part of `out` to all others.
absl::Status GatherPartsByMessages(Exchange& exchange, const HostCall& call);
absl::Status ReduceByMessages(Exchange& exchange, const HostCall& call);
absl::Status BroadcastByMessages(Exchange& exchange, const HostCall& call);

}  // namespace zeroshard::comm

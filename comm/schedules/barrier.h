// Dissemination barrier: in step k each rank tells the one 2^k further on that it, and all that it heard of, are here.
#pragma once

#include "absl/status/status.h"
#include "zeroshard/comm/schedules/exchange.h"

namespace zeroshard::comm {

// Returns when every rank has called it.
absl::Status DisseminationBarrier(Exchange& exchange);

}  // namespace zeroshard::comm

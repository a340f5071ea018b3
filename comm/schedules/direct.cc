#include "zeroshard/comm/schedules/direct.h"

#include <cstring>

#include "zeroshard/comm/schedules/direct_mapped.h"
#include "zeroshard/comm/schedules/direct_messages.h"
#include "zeroshard/comm/schedules/own_part.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::comm {

absl::Status DirectReduceScatter(Exchange& exchange, const HostCall& call) {
  return exchange.mapped() ? ReducePartsMapped(exchange, call) : ReducePartsByMessages(exchange, call);
}

void ReduceCarried(Exchange& exchange, const HostCall& call) {
  const int n = exchange.world_size();
  const std::span<const void*> parts = exchange.parts().first(static_cast<size_t>(n));
  for (int p = 0; p < n; ++p) parts[static_cast<size_t>(p)] = exchange.CarriedIn(p);
  device::ReduceParts(WholeReduction(call, n), parts, call.segments[0].out, call.segments[0].count);
}

absl::Status DirectAllGather(Exchange& exchange, const HostCall& call) {
  PutOwnParts(call, exchange.rank(), exchange.world_size());
  return exchange.mapped() ? GatherPartsMapped(exchange, call) : GatherPartsByMessages(exchange, call);
}

absl::Status DirectAllReduce(Exchange& exchange, const HostCall& call) {
  if (exchange.mapped()) return AllReduceMapped(exchange, call);
  ZS_RETURN_IF_ERROR(ReducePartsByMessages(exchange, call));
  return GatherPartsByMessages(exchange, call);
}

absl::Status DirectReduce(Exchange& exchange, const HostCall& call) {
  return exchange.mapped() ? ReduceMapped(exchange, call) : ReduceByMessages(exchange, call);
}

absl::Status DirectBroadcast(Exchange& exchange, const HostCall& call) {
  if (exchange.rank() == call.root) PutOwnParts(call, exchange.rank(), exchange.world_size());
  return exchange.mapped() ? BroadcastMapped(exchange, call) : BroadcastByMessages(exchange, call);
}

}  // namespace zeroshard::comm

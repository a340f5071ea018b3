#include "zeroshard/comm/schedules/barrier.h"

#include "zeroshard/device/status_macros.h"

namespace zeroshard::comm {

absl::Status DisseminationBarrier(Exchange& exchange) {
  const int n = exchange.world_size();
  for (int distance = 1; distance < n; distance *= 2) {
    const int to = (exchange.rank() + distance) % n;
    const int from = (exchange.rank() - distance + n) % n;
    ZS_RETURN_IF_ERROR(exchange.SwapTokens({&to, 1}, {&from, 1}));
  }
  return absl::OkStatus();
}

}  // namespace zeroshard::comm

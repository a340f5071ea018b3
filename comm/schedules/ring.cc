#include "zeroshard/comm/schedules/ring.h"

#include "zeroshard/device/status_macros.h"

namespace zeroshard::comm {

absl::Status RingGatherParts(Exchange& exchange, const HostCall& call) {
  const int n = exchange.world_size();
  const int rank = exchange.rank();
  const int64_t size = call.out_size();
  for (const HostSegment& segment : call.segments) {
    for (int step = 0; step < n - 1; ++step) {
      const Stretch mine = PartOf(call, segment, (rank - step + n) % n, n);
      const Stretch next = PartOf(call, segment, (rank - step - 1 + n) % n, n);
      ZS_RETURN_IF_ERROR(exchange.Swap((rank + 1) % n, segment.out + mine.first * size, mine.count * size,
                                       (rank + n - 1) % n, segment.out + next.first * size, next.count * size));
    }
  }
  return absl::OkStatus();
}

}  // namespace zeroshard::comm

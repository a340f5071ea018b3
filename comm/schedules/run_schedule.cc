#include "zeroshard/comm/schedules/run_schedule.h"

#include <algorithm>

#include "zeroshard/comm/schedules/barrier.h"
#include "zeroshard/comm/schedules/broadcast_trees.h"
#include "zeroshard/comm/schedules/direct.h"
#include "zeroshard/comm/schedules/halving.h"
#include "zeroshard/comm/schedules/own_part.h"
#include "zeroshard/comm/schedules/ring.h"
#include "zeroshard/comm/schedules/tree.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::comm {
namespace {

absl::Status RunDirect(Exchange& exchange, const HostCall& call) {
  switch (call.kind) {
    case OpKind::kAllReduce:
      return DirectAllReduce(exchange, call);
    case OpKind::kReduceScatter:
      return DirectReduceScatter(exchange, call);
    case OpKind::kAllGather:
      return DirectAllGather(exchange, call);
    case OpKind::kReduce:
      return DirectReduce(exchange, call);
    case OpKind::kBroadcast:
      return DirectBroadcast(exchange, call);
    case OpKind::kBarrier:
    case OpKind::kFinalize:
      return absl::OkStatus();  // Every rank heard from every other when they agreed.
  }
  return absl::OkStatus();
}

absl::Status RunLogarithmic(Exchange& exchange, const HostCall& call, bool scatter) {
  switch (call.kind) {
    case OpKind::kAllReduce:
      ZS_RETURN_IF_ERROR(HalvingReduceParts(exchange, call));
      return RingGatherParts(exchange, call);
    case OpKind::kReduceScatter:
      return HalvingReduceParts(exchange, call);
    case OpKind::kAllGather:
      PutOwnParts(call, exchange.rank(), exchange.world_size());
      return RingGatherParts(exchange, call);
    case OpKind::kReduce:
      return BinomialReduce(exchange, call);
    case OpKind::kBroadcast:
      if (exchange.rank() == call.root) PutOwnParts(call, exchange.rank(), exchange.world_size());
      return scatter ? ScatterGatherBroadcast(exchange, call) : BinomialBroadcast(exchange, call);
    case OpKind::kBarrier:
    case OpKind::kFinalize:
      return DisseminationBarrier(exchange);
  }
  return absl::OkStatus();
}

}  // namespace

ScheduleChoice Resolve(ScheduleChoice choice, int world_size) {
  if (choice != ScheduleChoice::kBySize) return choice;
  return world_size <= kMaxDirectRanks ? ScheduleChoice::kDirect : ScheduleChoice::kHalving;
}

std::vector<int> PeersOf(int rank, int world_size, ScheduleChoice choice) {
  std::vector<int> peers;
  if (Resolve(choice, world_size) == ScheduleChoice::kDirect) {
    for (int i = 1; i < world_size; ++i) peers.push_back((rank + i) % world_size);
    return peers;
  }
  for (int distance = 1; distance < world_size; distance *= 2) {
    peers.push_back((rank + distance) % world_size);
    peers.push_back((rank - distance + world_size) % world_size);
  }
  for (int level = 0; level < TreeLevels(world_size); ++level) {
    const int first = rank >> level << level;
    const int other = first ^ (1 << level);
    if (other >= world_size) continue;
    for (int part = 0; part < world_size; ++part) {
      if (OwnerOf(first, level, part, world_size) == rank) peers.push_back(OwnerOf(other, level, part, world_size));
    }
  }
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  peers.erase(std::remove(peers.begin(), peers.end(), rank), peers.end());
  return peers;
}

absl::Status RunSchedule(Exchange& exchange, const HostCall& call, ScheduleChoice choice) {
  if (exchange.carried()) {
    ReduceCarried(exchange, call);
    return absl::OkStatus();
  }
  const ScheduleChoice resolved = Resolve(choice, exchange.world_size());
  if (resolved == ScheduleChoice::kDirect) return RunDirect(exchange, call);
  return RunLogarithmic(exchange, call, resolved == ScheduleChoice::kScatter);
}

}  // namespace zeroshard::comm

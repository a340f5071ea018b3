#include "zeroshard/comm/schedules/run_schedule.h"

#include <algorithm>

#include "zeroshard/comm/schedules/barrier.h"
#include "zeroshard/comm/schedules/broadcast_trees.h"
#include "zeroshard/comm/schedules/by_host.h"
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

int64_t BytesOf(const HostCall& call, int world_size) {
  const bool parts = call.kind == OpKind::kReduceScatter || call.kind == OpKind::kAllGather;
  int64_t elements = 0;
  for (const HostSegment& segment : call.segments) elements += segment.count;
  return elements * (parts ? world_size : 1) * call.in_size();
}

// Whether hosts may add up first, and send less than their ranks' inputs.
bool SumsByHost(const HostCall& call, const HostGrid& grid) {
  return grid.hosts_are_nodes() && grid.each * call.in_size() > SizeOf(AccumulatorOf(call.in));
}

absl::Status RunByHost(Exchange& exchange, const HostCall& call, const HostGrid& grid) {
  const int rank = exchange.rank();
  const int n = exchange.world_size();
  const bool sums = SumsByHost(call, grid);
  switch (call.kind) {
    case OpKind::kAllReduce:
      ZS_RETURN_IF_ERROR(sums ? ReducePartsByHost(exchange, call, grid) : DirectReduceScatter(exchange, call));
      return GatherPartsByHost(exchange, call, grid);
    case OpKind::kReduceScatter:
      return sums ? ReducePartsByHost(exchange, call, grid) : DirectReduceScatter(exchange, call);
    case OpKind::kAllGather:
      PutOwnParts(call, rank, n);
      return GatherPartsByHost(exchange, call, grid);
    case OpKind::kReduce:
      return sums ? BinomialReduce(exchange, call) : DirectReduce(exchange, call);
    case OpKind::kBroadcast:
      if (rank == call.root) PutOwnParts(call, rank, n);
      return BroadcastByHost(exchange, call, grid);
    case OpKind::kBarrier:
    case OpKind::kFinalize:
      return absl::OkStatus();  // As directly.
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

ScheduleChoice Resolve(ScheduleChoice choice, int world_size, const HostGrid& grid) {
  if (choice == ScheduleChoice::kBySize)
    choice = world_size <= kMaxDirectRanks ? ScheduleChoice::kByHost : ScheduleChoice::kHalving;
  return choice == ScheduleChoice::kByHost && !grid.two_levels() ? ScheduleChoice::kDirect : choice;
}

std::vector<int> PeersOf(int rank, int world_size, ScheduleChoice choice) {
  std::vector<int> peers;
  if (choice == ScheduleChoice::kDirect || choice == ScheduleChoice::kByHost) {
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

absl::Status RunSchedule(Exchange& exchange, const HostCall& call, const Schedules& schedules) {
  if (exchange.carried()) {
    ReduceCarried(exchange, call);
    return absl::OkStatus();
  }
  switch (schedules.choice) {
    case ScheduleChoice::kByHost:
      if (!exchange.mapped() && BytesOf(call, exchange.world_size()) >= schedules.by_host_bytes) {
        return RunByHost(exchange, call, schedules.grid);
      }
      return RunDirect(exchange, call);
    case ScheduleChoice::kBySize:
    case ScheduleChoice::kDirect:
      return RunDirect(exchange, call);
    case ScheduleChoice::kHalving:
    case ScheduleChoice::kScatter:
      return RunLogarithmic(exchange, call, schedules.choice == ScheduleChoice::kScatter);
  }
  return absl::OkStatus();
}

}  // namespace zeroshard::comm

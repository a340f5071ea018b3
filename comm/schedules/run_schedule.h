// Which schedule runs a collective, and whom a rank talks to in it.
//
// Example:
//   const Schedules schedules = {.choice = Resolve(ScheduleChoice::kBySize, world_size, grid), .grid = grid};
//   Exchange exchange(transport, ledger, scratch, PeersOf(transport.rank(), transport.world_size(), schedules.choice), ...);
//   ...
//   ZS_RETURN_IF_ERROR(RunSchedule(exchange, call, schedules));
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "zeroshard/comm/schedules/exchange.h"
#include "zeroshard/comm/schedules/host_call.h"
#include "zeroshard/comm/schedules/host_grid.h"

namespace zeroshard::comm {

// All ranks of a group choose alike.
enum class ScheduleChoice : uint8_t {
  kBySize,   // Up to kMaxDirectRanks ranks direct, or by host where hosts hold two levels of them; kHalving above.
  kDirect,   // Every peer's part read once.
  kByHost,   // As kDirect, but what is long goes between hosts once.
  kHalving,  // Recursive halving, ring all-gather, binomial reduce and broadcast, dissemination barrier.
  kScatter,  // As kHalving, but broadcasts by scatter and all-gather.
};

inline constexpr int kMaxDirectRanks = 16;

// From so many bytes on, of all ranks' parts, a collective goes by host: a gigabit's link has carried them in the time of a few
// messages one after the other.
inline constexpr int64_t kByHostBytes = int64_t{64} << 10;

// All ranks of a group have the same.
struct Schedules {
  ScheduleChoice choice = ScheduleChoice::kDirect;  // resolved
  HostGrid grid = {};                               // of two levels, where the choice is kByHost
  int64_t by_host_bytes = kByHostBytes;
};

// kBySize as what it is with so many ranks on these hosts; kByHost on hosts without two levels as kDirect.
ScheduleChoice Resolve(ScheduleChoice choice, int world_size, const HostGrid& grid);

// Direct and by host: all other ranks, the next one first. Else: all that any of the logarithmic schedules may talk to, of any root; about
// 3 log2(N).
std::vector<int> PeersOf(int rank, int world_size, ScheduleChoice choice);

// Runs the call, agreed upon, of 2 ranks and more. Errors: those of Exchange::Wait.
absl::Status RunSchedule(Exchange& exchange, const HostCall& call, const Schedules& schedules);

}  // namespace zeroshard::comm

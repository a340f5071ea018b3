// Which schedule runs a collective, and whom a rank talks to in it.
//
// Example:
//   Exchange exchange(transport, ledger, scratch, PeersOf(transport.rank(), transport.world_size(), choice));
//   ...
//   ZS_RETURN_IF_ERROR(RunSchedule(exchange, call, choice));
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "zeroshard/comm/schedules/exchange.h"
#include "zeroshard/comm/schedules/host_call.h"

namespace zeroshard::comm {

// All ranks of a group choose alike.
enum class ScheduleChoice : uint8_t {
  kBySize,   // Direct up to kMaxDirectRanks ranks, kHalving above.
  kDirect,   // Every peer's part read once.
  kHalving,  // Recursive halving, ring all-gather, binomial reduce and broadcast, dissemination barrier.
  kScatter,  // As kHalving, but broadcasts by scatter and all-gather.
};

inline constexpr int kMaxDirectRanks = 16;

// kBySize as what it is with so many ranks.
ScheduleChoice Resolve(ScheduleChoice choice, int world_size);

// Direct: all other ranks, the next one first. Else: all that any of the logarithmic schedules may talk to, of any root; about
// 3 log2(N).
std::vector<int> PeersOf(int rank, int world_size, ScheduleChoice choice);

// Runs the call, agreed upon, of 2 ranks and more. Errors: those of Exchange::Wait.
absl::Status RunSchedule(Exchange& exchange, const HostCall& call, ScheduleChoice choice);

}  // namespace zeroshard::comm

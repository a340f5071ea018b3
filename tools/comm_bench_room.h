// Whether comm_bench's collectives can fit into the memory that is there, before a rank is started.
//
// Example:
//   CheckRooms(plan, [&](const trainer::Room& room) { return CheckBenchRoom(options, plan.world_size, room); });
#pragma once

#include "absl/status/status.h"
#include "zeroshard/tools/comm_bench_options.h"
#include "zeroshard/trainer/memory_room.h"

namespace zeroshard::tools {

// Of the largest case that `options` name: what the backend takes beside is not in it. Errors: as trainer::NoRoom.
absl::Status CheckBenchRoom(const CommBenchOptions& options, int world_size, const trainer::Room& room);

}  // namespace zeroshard::tools

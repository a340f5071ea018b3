// Whether comm_bench's collectives can fit into the memory that is there, before a rank is started.
//
// Example:
//   CheckRooms(plan, [&](const trainer::Room& room) { return CheckBenchRoom(options, SurroundingsOf(plan), room); });
#pragma once

#include "absl/status/status.h"
#include "zeroshard/device/memory_ledger.h"
#include "zeroshard/tools/comm_bench_options.h"
#include "zeroshard/trainer/memory_room.h"

namespace zeroshard::tools {

// What a rank holds while it runs the largest case that `options` name, as its device's ledger predicts it: to the byte what that files
// under Use::kCommunication; under kData the images on the host, which it does not file.
void PredictBench(const CommBenchOptions& options, const trainer::Surroundings& surroundings, device::MemoryLedger& ledger);

// Errors: as trainer::NoRoom.
absl::Status CheckBenchRoom(const CommBenchOptions& options, const trainer::Surroundings& surroundings,
                            const trainer::Room& room);

}  // namespace zeroshard::tools

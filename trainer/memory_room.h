// Whether a run can fit into memory: what it is sure to allocate, against what is there, before anything is allocated.
//
// Sure is what the engine holds, to the byte (zero/formulas.h), and the model's activations at the least. Left out is what only the device,
// the backend and the vendor's libraries know (scratch of products and of collectives, whole pieces): a run that fits by this may find
// no room all the same, one that does not fit cannot run.
//
// Example:
//   ZS_RETURN_IF_ERROR(CheckRoom(options, world_size, {.says = "the GPU has $0 left", .bytes = free, .ranks = {rank},
//                                                      .parts = RoomParts::kDevice}));
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "zeroshard/trainer/training_run.h"

namespace zeroshard::trainer {

// What of a rank lies in a memory: what its device holds, what Device::host does, or both.
enum class RoomParts : uint8_t { kDevice, kHost, kBoth };

struct Room {
  std::string says = {};  // "this machine has $0 left": $0 stands for the bytes
  int64_t bytes = 0;
  std::vector<int> ranks = {};  // who share it
  RoomParts parts = RoomParts::kBoth;
};

// `options` are as TrainingRun::Create takes them. Errors: kInvalidArgument where the room does not suffice: both numbers, what would need
// less, and after the first line the table of who would hold what (memory_table.h); those of the model and the engine.
absl::Status CheckRoom(const RunOptions& options, int world_size, const Room& room);

// kInvalidArgument: that the room's ranks together need `bytes`, what there is, what would need less (`remedies`), and the table after it.
absl::Status NoRoom(const Room& room, int64_t bytes, std::string_view remedies, std::string_view table);

}  // namespace zeroshard::trainer

// Whether a run can fit into memory: what it is sure to allocate, against what is there, before anything is allocated.
//
// Sure is, to the byte, what engine (zero/formulas.h), communicators, the run's data and its evaluations hold, and of activations the
// model's and the workspace that products share. Left out is what only plans know (attention's workspace, oneDNN's scratch, copies of
// biases), the vendor's libraries' own, whole pieces, and what traces take: a run that fits by this may find no room all the same, one that
// does not fit cannot run.
//
// Example:
//   ZS_RETURN_IF_ERROR(CheckRoom(options, {.world_size = 2}, {.says = "the GPU has $0 left", .bytes = free, .ranks = {rank},
//                                                             .parts = RoomParts::kDevice}));
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/comm/backend_memory.h"
#include "zeroshard/device/device_needs.h"
#include "zeroshard/trainer/evaluation.h"
#include "zeroshard/trainer/rank_report.h"
#include "zeroshard/trainer/training_run.h"

namespace zeroshard::trainer {

// What of a rank lies in a memory: what its device holds, what Device::host does, or both.
enum class RoomParts : uint8_t { kDevice, kHost, kBoth };

// What a run's ranks find: how many they are, and what is taken of their memory beside the run's own.
struct Surroundings {
  int world_size = 1;
  // What a communicator of so many ranks takes; null: nobody says.
  std::function<comm::BackendMemory(int ranks)> communicator = nullptr;
  device::DeviceNeeds device = {};
  EvaluationSize evaluation = {};

  comm::BackendMemory OfCommunicator(int ranks) const { return communicator ? communicator(ranks) : comm::BackendMemory(); }
};

// What is to run: a training run, or the measurement of its floor (step_floor.h), which has neither engine nor data.
enum class RoomWork : uint8_t { kTraining, kStepFloor };

struct Room {
  std::string says = {};  // "this machine has $0 left": $0 stands for the bytes
  int64_t bytes = 0;
  std::vector<int> ranks = {};  // who share it
  RoomParts parts = RoomParts::kBoth;
};

// `options` are as TrainingRun::Create takes them. Errors: kInvalidArgument where the room does not suffice: both numbers, what would need
// less, and after the first line the table of who would hold what (memory_table.h); those of the model and the engine.
absl::Status CheckRoom(const RunOptions& options, const Surroundings& surroundings, const Room& room,
                       RoomWork work = RoomWork::kTraining);

// What a rank is sure to hold once its TrainingRun and its Evaluation are there, or while its floor is measured, as LedgerLine::now of its
// two ledgers. Errors: those of the model and the engine.
absl::StatusOr<RankReport> SureMemory(const RunOptions& options, const Surroundings& surroundings, int rank,
                                      RoomWork work = RoomWork::kTraining);

// kInvalidArgument: that the room's ranks together need `bytes`, what there is, what would need less (`remedies`), and the table after it.
absl::Status NoRoom(const Room& room, int64_t bytes, std::string_view remedies, std::string_view table);

}  // namespace zeroshard::trainer

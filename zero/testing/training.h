// A whole training run of a ToyModel on one rank, through Engine alone, and what came of it.
//
// Example:
//   RunOnRanks(3, [&](comm::Communicator& communicator) {
//     absl::StatusOr<TrainingRun> run = Train(communicator, units, options, {.steps = 4});
//   });
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/comm/communicator.h"
#include "zeroshard/zero/engine.h"
#include "zeroshard/zero/testing/reference.h"
#include "zeroshard/zero/testing/toy_model.h"

namespace zeroshard::zero::testing {

struct TrainingOptions {
  int steps = 3;
  // Of each step; every unit in every micro-batch by default.
  std::function<Schedule(int step)> schedule = nullptr;
  Padding padding = Padding::kLeft;
  // What is frozen (true) or unfrozen before each step, by full names.
  std::function<std::vector<std::pair<std::string, bool>>(int step)> freeze = nullptr;
  // Called before each step's first unit, with the engine; tests do to it what they will.
  std::function<absl::Status(Engine& engine, int step)> before_step = nullptr;
};

struct TrainingRun {
  std::vector<StepResult> results;                    // [step]
  std::vector<double> losses;                         // [step]
  std::map<std::string, std::vector<float>> weights;  // by parameter, whole, at the end
  std::map<std::string, std::vector<float>> gradients;
  std::map<std::string, std::vector<float>> moments[2];
  std::vector<int64_t> data_bytes;  // [step]: sent
};

// Writes the parameters' first values.
absl::Status WriteInitial(Engine& engine, const std::vector<model::UnitSpec>& units);
// Forward and backward of one micro-batch over these units, and in between what they recompute. loss: [1] fp64, is added to.
absl::Status RunMicroBatch(Engine& engine, const ToyModel& model, const std::vector<int>& units, const Sample& sample,
                           device::Array loss);
// Reads every parameter, and every trainable one's gradient and moments.
absl::Status ReadAll(Engine& engine, const std::vector<model::UnitSpec>& units, TrainingRun& run);

absl::StatusOr<TrainingRun> Train(comm::Communicator& communicator, const std::vector<model::UnitSpec>& units,
                                  const EngineOptions& options, const TrainingOptions& training);

}  // namespace zeroshard::zero::testing

// A training run that is over in milliseconds, for tests: two blocks of width 32 on squares written as text.
//
// Example:
//   RunOnRanks({.world_size = 2}, [&](comm::Communicator& communicator) {
//     const auto run = StartSmallRun(communicator, SmallRun(/*stage=*/3, /*rows=*/2));
//     ASSERT_TRUE(run->Step(false).ok());
//   });
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "zeroshard/trainer/training_run.h"

namespace zeroshard::trainer::testing {

// The text's file, of `numbers` squares; made anew.
std::string SmallText(const std::string& name, int numbers);

RunOptions SmallRun(int stage, int64_t rows);

// A run with weights of seed 1; fails the test, and gives null, where there is none.
std::unique_ptr<TrainingRun> StartSmallRun(comm::Communicator& communicator, const RunOptions& options);

}  // namespace zeroshard::trainer::testing

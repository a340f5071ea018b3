// Trains a ToyModel on N ranks, and expects of every rank, bit for bit, what the reference gives: each step's loss, norm and scalars,
// and in the end every weight, gradient and moment.
//
// Example:
//   ExpectReference(OddUnits(), options, {.world_size = 3}, {.steps = 3});
#pragma once

#include <vector>

#include "zeroshard/zero/engine_options.h"
#include "zeroshard/zero/testing/ranks.h"
#include "zeroshard/zero/testing/training.h"

namespace zeroshard::zero::testing {

// Gives the runs, [rank].
std::vector<TrainingRun> ExpectReference(const std::vector<model::UnitSpec>& units, const EngineOptions& options,
                                         const RankOptions& ranks, const TrainingOptions& training);

// "stage 2 flat bucket 1000 ...", for SCOPED_TRACE.
std::string Describe(const EngineOptions& options, int world_size);

}  // namespace zeroshard::zero::testing

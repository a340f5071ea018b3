// Options with which the toy models show what they are for: several buckets, a norm that is clipped, a group that decays beside one
// that does not.
//
// Example:
//   ForEachStageAndPartition(/*least_stage=*/1, [](int stage, Partition partition) {
//     ExpectReference(OddUnits(), ToyOptions(stage, partition), {.world_size = 2}, {.steps = 2});
//   });
#pragma once

#include <functional>

#include "zeroshard/zero/engine_options.h"

namespace zeroshard::zero::testing {

EngineOptions ToyOptions(int stage, Partition partition);

// Every stage from `least_stage` on, in both partitions.
void ForEachStageAndPartition(int least_stage, const std::function<void(int stage, Partition partition)>& check);

}  // namespace zeroshard::zero::testing

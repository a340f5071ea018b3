// The same bits over UCX, whose ranks read each other's memory, as plain loops give; also where ranks own unlike parts, or nothing.

#include <gtest/gtest.h>

#include "zeroshard/zero/testing/expect_reference.h"
#include "zeroshard/zero/testing/toy_units.h"

namespace zeroshard::zero {
namespace {

void ExpectInEveryStageAndPartition(const std::vector<model::UnitSpec>& units, int world_size) {
  for (int stage = 0; stage <= 3; ++stage) {
    for (Partition partition : {Partition::kFlat, Partition::kTensor}) {
      EngineOptions options;
      options.stage = stage;
      options.partition = partition;
      options.dtype = partition == Partition::kFlat ? device::DType::kBfloat16 : device::DType::kFloat32;
      options.reduce_bucket_size = 1000;
      options.optimizer.groups = {{.weight_decay = 0.1}, {}};
      testing::ExpectReference(units, options, {.world_size = world_size, .backend_name = "ucx"}, {.steps = 2});
    }
  }
}

TEST(EngineOverUcx, GivesTheSameBitsInEveryStageAndPartition) {
  ExpectInEveryStageAndPartition(testing::OddUnits(), 2);
  ExpectInEveryStageAndPartition(testing::OddUnits(), 3);
}

TEST(EngineOverUcx, ARankThatOwnsNothingHoldsNothing) { ExpectInEveryStageAndPartition(testing::EqualUnits(1, 100), 2); }

}  // namespace
}  // namespace zeroshard::zero

// The same bits over Gloo as over memory: what plain loops give.

#include <gtest/gtest.h>

#include "zeroshard/zero/testing/expect_reference.h"
#include "zeroshard/zero/testing/toy_options.h"
#include "zeroshard/zero/testing/toy_units.h"

namespace zeroshard::zero {
namespace {

TEST(EngineOverGloo, GivesTheSameBitsInEveryStageAndPartition) {
  for (int world : {2, 3}) {
    testing::ForEachStageAndPartition(/*least_stage=*/0, [world](int stage, Partition partition) {
      EngineOptions options = testing::ToyOptions(stage, partition);
      options.reduce_bucket_size = 1000;
      for (device::DType dtype : {device::DType::kFloat32, device::DType::kBfloat16}) {
        options.dtype = dtype;
        options.accumulation = dtype == device::DType::kFloat32 ? 2 : 1;
        testing::ExpectReference(testing::OddUnits(), options, {.world_size = world, .backend_name = "gloo"}, {.steps = 3});
      }
    });
  }
}

}  // namespace
}  // namespace zeroshard::zero

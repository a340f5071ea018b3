// The same bits over Gloo as over memory: what plain loops give.

#include <gtest/gtest.h>

#include "zeroshard/zero/testing/expect_reference.h"
#include "zeroshard/zero/testing/toy_units.h"

namespace zeroshard::zero {
namespace {

TEST(EngineOverGloo, GivesTheSameBitsInEveryStageAndPartition) {
  for (int world : {2, 3}) {
    for (int stage = 0; stage <= 3; ++stage) {
      for (Partition partition : {Partition::kFlat, Partition::kTensor}) {
        EngineOptions options;
        options.stage = stage;
        options.partition = partition;
        options.reduce_bucket_size = 1000;
        options.clip = 0.5;
        options.optimizer.groups = {{.weight_decay = 0.1}, {}};
        for (device::DType dtype : {device::DType::kFloat32, device::DType::kBfloat16}) {
          options.dtype = dtype;
          options.accumulation = dtype == device::DType::kFloat32 ? 2 : 1;
          testing::ExpectReference(testing::OddUnits(), options, {.world_size = world, .backend_name = "gloo"},
                                   {.steps = 3});
        }
      }
    }
  }
}

}  // namespace
}  // namespace zeroshard::zero

// The same bits over NCCL's double with --reduction=tree, on the CUDA runtime's double, as plain loops give.

#include <gtest/gtest.h>

#include <memory>

#include "zeroshard/device/cuda/doubles/test_cuda_device.h"
#include "zeroshard/zero/testing/expect_reference.h"
#include "zeroshard/zero/testing/toy_units.h"

namespace zeroshard::zero {
namespace {

std::unique_ptr<device::Device> NextDevice() { return device::cuda::doubles::MakeTestCudaDevice(); }

class EngineOverNccl : public ::testing::TestWithParam<int> {};

TEST_P(EngineOverNccl, GivesTheSameBitsInEveryPartitionAndPrecision) {
  for (const Partition partition : {Partition::kFlat, Partition::kTensor}) {
    for (const device::DType dtype : {device::DType::kFloat32, device::DType::kBfloat16, device::DType::kFloat16}) {
      for (const int world_size : {2, 3}) {
        EngineOptions options;
        options.stage = GetParam();
        options.partition = partition;
        options.dtype = dtype;
        options.reduce_bucket_size = 1000;
        options.optimizer.groups = {{.weight_decay = 0.1}, {}};
        testing::ExpectReference(testing::OddUnits(), options,
                                 {.world_size = world_size, .backend_name = "nccl", .make_device = &NextDevice},
                                 {.steps = 2});
      }
    }
  }
}

TEST_P(EngineOverNccl, ARankThatOwnsNothingHoldsNothing) {
  EngineOptions options;
  options.stage = GetParam();
  options.partition = Partition::kTensor;
  testing::ExpectReference(testing::EqualUnits(1, 100), options,
                           {.world_size = 2, .backend_name = "nccl", .make_device = &NextDevice}, {.steps = 2});
}

INSTANTIATE_TEST_SUITE_P(Stages, EngineOverNccl, ::testing::Values(0, 1, 2, 3));

}  // namespace
}  // namespace zeroshard::zero

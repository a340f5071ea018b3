// That a run on GPUs asks CUDA for no memory, stream or event from its third step on; that its code is loaded before its first collective is
// what the doubles see to (device/cuda/doubles/loading.h).
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "zeroshard/device/cuda/doubles/control.h"
#include "zeroshard/device/cuda/doubles/test_cuda_device.h"
#include "zeroshard/trainer/testing/small_run.h"
#include "zeroshard/zero/testing/ranks.h"

namespace zeroshard::trainer {
namespace {

using device::cuda::doubles::ResourceCalls;

class SteadyRunOnGpus : public ::testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(SteadyRunOnGpus, AsksForNothingFromTheThirdStepOn) {
  const auto [backend, stage] = GetParam();
  const RunOptions options = [stage] {
    RunOptions small = testing::SmallRun(stage, /*rows=*/2);
    small.engine.dtype = device::DType::kBfloat16;
    return small;
  }();
  zero::testing::RunOnRanks(
      {.world_size = 2, .backend_name = backend, .make_device = [] { return device::cuda::doubles::MakeTestCudaDevice(); }},
      [&](comm::Communicator& communicator) {
        const auto run = testing::StartSmallRun(communicator, options);
        ASSERT_NE(run, nullptr);
        int64_t before = 0;
        for (int step = 0; step < 5; ++step) {
          if (step == 2) {
            ASSERT_TRUE(communicator.Barrier().Wait().ok());
            before = ResourceCalls();
          }
          ASSERT_TRUE(run->Step(/*stop=*/false).ok());
        }
        ASSERT_TRUE(communicator.Barrier().Wait().ok());
        EXPECT_EQ(ResourceCalls(), before);
        ASSERT_TRUE(communicator.Barrier().Wait().ok());
      });
}

INSTANTIATE_TEST_SUITE_P(All, SteadyRunOnGpus, ::testing::Combine(::testing::Values("nccl", ""), ::testing::Range(0, 4)),
                         [](const auto& which) {
                           const std::string backend = std::get<0>(which.param);
                           return absl::StrCat(backend.empty() ? "InProcess" : "Nccl", "Stage", std::get<1>(which.param));
                         });

TEST(ResourceCallsOfGpus, ShowAnAllocation) {
  const auto device = device::cuda::doubles::MakeTestCudaDevice();
  const int64_t before = ResourceCalls();
  const auto one = device->Allocate(4, device::Use::kData, "one");
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(ResourceCalls(), before + 1);
}

}  // namespace
}  // namespace zeroshard::trainer

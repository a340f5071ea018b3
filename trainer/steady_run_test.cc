// That a run on GPUs takes its memory in few pieces, and asks CUDA for no memory, stream or event from its third step on; that its code is
// loaded before its first collective is what the doubles see to (device/cuda/doubles/loading.h).
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "zeroshard/backends/nccl/doubles/nccl_control.h"
#include "zeroshard/device/cuda/cuda_device.h"
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

struct Pieces {
  int64_t nccl = 0, registered = 0, pinned = 0;
};

// Of all ranks together, while a run of so many layers is there, and when it has gone.
std::pair<Pieces, Pieces> PiecesOf(int layers, int stage, bool offload) {
  RunOptions options = testing::SmallRun(stage, /*rows=*/2);
  options.model.layers = layers;
  if (offload) options.engine.offload_optimizer.target = zero::OffloadTarget::kHost;
  const auto count = [](comm::Communicator& communicator) {
    EXPECT_TRUE(communicator.Barrier().Wait().ok());
    const Pieces pieces{.nccl = backends::doubles::NcclPieces(),
                        .registered = backends::doubles::NcclRegistrations(),
                        .pinned = device::cuda::doubles::PinnedPieces()};
    EXPECT_TRUE(communicator.Barrier().Wait().ok());
    return pieces;
  };
  std::pair<Pieces, Pieces> pieces;
  std::atomic<int> next{0};
  const auto make_device = [&]() -> std::unique_ptr<device::Device> {
    return device::cuda::MakeCudaDevice({.ordinal = next++}).value();
  };
  const auto rank = [&](comm::Communicator& communicator) {
    const device::MemoryLedger& ledger = communicator.device().ledger();
    const int64_t room = ledger.granularity();
    auto run = testing::StartSmallRun(communicator, options);
    ASSERT_NE(run, nullptr);
    ASSERT_TRUE(run->Step(/*stop=*/false).ok());
    EXPECT_LT(ledger.granularity(), room);
    const Pieces held = count(communicator);
    run.reset();
    const Pieces left = count(communicator);
    if (communicator.rank() == 0) pieces = {held, left};
    EXPECT_EQ(ledger.now(device::Use::kParameters) + ledger.now(device::Use::kGradients), 0);
    EXPECT_EQ(ledger.granularity(), room);
  };
  zero::testing::RunOnRanks({.world_size = 2, .backend_name = "nccl", .make_device = make_device}, rank);
  return pieces;
}

TEST(PiecesOfMemoryOfGpus, AreFewWhateverTheNumberOfUnitsAndGivenBack) {
  constexpr int kRanks = 2;
  for (int stage = 0; stage < 4; ++stage) {
    for (const bool offload : {false, true}) {
      if (offload && stage == 0) continue;
      const auto [one, none] = PiecesOf(/*layers=*/1, stage, offload);
      const auto [many, none_of_many] = PiecesOf(/*layers=*/6, stage, offload);
      EXPECT_EQ(one.nccl, kRanks) << "stage " << stage;
      EXPECT_EQ(one.registered, one.nccl);
      EXPECT_LE(one.pinned, 2 * kRanks) << "of the device, and of its host";
      EXPECT_GE(one.pinned, kRanks);
      EXPECT_EQ(many.nccl, one.nccl);
      EXPECT_EQ(many.registered, one.registered);
      EXPECT_EQ(many.pinned, one.pinned);
      for (const Pieces& left : {none, none_of_many}) {
        EXPECT_EQ(left.nccl, kRanks) << "where the scratch of collectives is";
        EXPECT_EQ(left.registered, left.nccl);
        EXPECT_EQ(left.pinned, 0);
      }
    }
  }
}

TEST(ResourceCallsOfGpus, ShowAnAllocation) {
  const auto device = device::cuda::doubles::MakeTestCudaDevice();
  const int64_t before = ResourceCalls();
  const auto one = device->Allocate(4, device::Use::kData, "one");
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(ResourceCalls(), before + 1);
}

}  // namespace
}  // namespace zeroshard::trainer

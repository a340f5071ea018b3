// A training run on device/late, or on device/cuda over the doubles: the bits of a CPU's or of another order's run, and each wait of it
// left out in turn.

#include <latch>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "zeroshard/device/late/test_devices.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/trainer/testing/small_run.h"
#include "zeroshard/trainer/training_run.h"
#include "zeroshard/zero/testing/left_out_waits.h"
#include "zeroshard/zero/testing/ranks.h"

namespace zeroshard::trainer {
namespace {

using device::LateOrder;
using testing::SmallRun;
using testing::StartSmallRun;

// What train does with a run, in short.
absl::StatusOr<std::string> Train(comm::Communicator& communicator, const RunOptions& options) {
  const auto run = StartSmallRun(communicator, options);
  for (int step = 0; step < 2; ++step) ZS_RETURN_IF_ERROR(run->Step(/*stop=*/false).status());
  ZS_RETURN_IF_ERROR(run->LossByRank().status());
  return run->Bits();
}

RunOptions Options(int stage) {
  RunOptions options = SmallRun(stage, 2);
  options.engine.reduce_bucket_size = 5000;
  return options;
}

RunOptions Checkpointed(int stage) {
  RunOptions options = Options(stage);
  options.model.checkpoint_every = 1;
  options.model.checkpoints_on_host = true;
  return options;
}

TEST(TrainingRunOrder, ChangesNoBit) {
  std::mutex mutex;
  for (const bool checkpointed : {false, true}) {
    std::set<std::string> bits;
    for (int stage = 0; stage < 4; ++stage) {
      for (const LateOrder order : {LateOrder::kAtOnce, LateOrder::kLazy, LateOrder::kOneFirst, LateOrder::kRandom}) {
        const auto make_device = [order] { return device::MakeOrderedDevice({.order = order, .seed = 5}); };
        zero::testing::RunOnRanks({.world_size = 2, .make_device = make_device}, [&](comm::Communicator& communicator) {
          const absl::StatusOr<std::string> hex = Train(communicator, checkpointed ? Checkpointed(stage) : Options(stage));
          ASSERT_TRUE(hex.ok()) << hex.status();
          const std::lock_guard<std::mutex> lock(mutex);
          bits.insert(*hex);
        });
      }
    }
    EXPECT_EQ(bits.size(), 1u);
  }
}

TEST(TrainingRunOrder, ARunThatFailsInAStepIsDroppedWhenNothingIsQueuedAnyMore) {
  const auto make_device = [] { return device::MakeOrderedDevice({.order = LateOrder::kLazy}); };
  std::latch started(2);
  zero::testing::RunOnRanks({.world_size = 2, .make_device = make_device}, [&](comm::Communicator& communicator) {
    const auto run = StartSmallRun(communicator, Options(2));
    started.arrive_and_wait();
    communicator.Abort(absl::FailedPreconditionError("the test says so"));
    EXPECT_FALSE(run->Step(/*stop=*/false).ok());
  });
}

class TrainingRunWithoutAWait : public ::testing::TestWithParam<int> {};

TEST_P(TrainingRunWithoutAWait, IsCaught) {
  if (!zero::testing::OverNccl() && GetParam() > 1) GTEST_SKIP() << "the host has waited for reductions itself";
  if (zero::testing::OverNccl() && GetParam() == 1) GTEST_SKIP() << "stage 2 waits for all that stage 1 waits for";
  // In stage 3 rank 0 has no part of the last parameter, whose first values it need not wait for.
  const int unneeded = GetParam() == 3 ? 1 : 0;
  zero::testing::ExpectEachWaitIsMissed({.unneeded = unneeded}, [](comm::Communicator& communicator) {
    return Train(communicator, Checkpointed(GetParam())).status();
  });
}

INSTANTIATE_TEST_SUITE_P(Stages, TrainingRunWithoutAWait, ::testing::Values(0, 1, 2, 3));

}  // namespace
}  // namespace zeroshard::trainer

#include "zeroshard/trainer/memory_room.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "zeroshard/comm/host_communicator.h"
#include "zeroshard/device/device.h"
#include "zeroshard/trainer/testing/small_run.h"
#include "zeroshard/zero/testing/ranks.h"

namespace zeroshard::trainer {
namespace {

using device::Use;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::SmallRun;

constexpr int kRanks = 2;

int64_t Held(const device::MemoryLedger& ledger) {
  int64_t bytes = 0;
  for (int use = 0; use < device::kUses; ++use) bytes += ledger.now(static_cast<Use>(use));
  return bytes;
}

// What lives from step to step: known before to the byte, and there are activations beside it.
int64_t States(const device::MemoryLedger& ledger) {
  return ledger.now(Use::kParameters) + ledger.now(Use::kGradients) + ledger.now(Use::kMasterWeights) +
         ledger.now(Use::kMoments);
}

std::vector<RunOptions> Runs() {
  std::vector<RunOptions> runs;
  for (int stage = 0; stage < 4; ++stage) {
    for (const device::DType dtype : {device::DType::kFloat32, device::DType::kBfloat16}) {
      RunOptions options = SmallRun(stage, /*rows=*/4);
      options.engine.dtype = dtype;
      runs.push_back(options);
      options.model.checkpoint_every = 1;
      options.model.checkpoints_on_host = true;
      runs.push_back(options);
      if (stage == 0) continue;
      options.engine.offload_optimizer.target = zero::OffloadTarget::kHost;
      options.engine.sub_group_size = 5000;
      runs.push_back(options);
    }
  }
  return runs;
}

// Beside the run's own, what the in-process backend takes.
Surroundings Around(int world_size) {
  const auto communicator = [](int ranks) { return comm::HostCommunicatorMemory({.world_size = ranks}); };
  return {.world_size = world_size, .communicator = communicator};
}

TEST(MemoryRoom, SufficesWhereItHoldsWhatTheRunHolds) {
  for (const RunOptions& options : Runs()) {
    zero::testing::RunOnRanks({.world_size = kRanks}, [&](comm::Communicator& communicator) {
      const auto run = testing::StartSmallRun(communicator, options);
      ASSERT_NE(run, nullptr);
      device::MemoryLedger &device = communicator.device().ledger(), &host = communicator.device().host().ledger();
      const auto check = [&](int64_t free_bytes, RoomParts parts) {
        return CheckRoom(options, Around(kRanks), {.bytes = free_bytes, .ranks = {communicator.rank()}, .parts = parts});
      };
      EXPECT_TRUE(check(Held(device), RoomParts::kDevice).ok()) << options.engine.stage;
      EXPECT_TRUE(check(Held(device) + Held(host), RoomParts::kBoth).ok()) << options.engine.stage;
      EXPECT_TRUE(absl::IsInvalidArgument(check(States(device), RoomParts::kDevice))) << options.engine.stage;
      EXPECT_TRUE(absl::IsInvalidArgument(check(Held(host), RoomParts::kHost))) << "tokens and scratch are the host's, too";
    });
  }
}

TEST(MemoryRoom, IsForAllThatShareIt) {
  const RunOptions options = SmallRun(/*stage=*/2, /*rows=*/4);
  const auto fits = [&](int64_t free_bytes, const std::vector<int>& ranks) {
    return CheckRoom(options, {.world_size = kRanks}, {.bytes = free_bytes, .ranks = ranks}).ok();
  };
  int64_t one = 0, both = 0;
  while (!fits(one, {0})) one += 1000;
  while (!fits(both, {0, 1})) both += 1000;
  EXPECT_NEAR(static_cast<double>(both), 2.0 * static_cast<double>(one), 2000);
  EXPECT_TRUE(fits(0, {}));
}

TEST(MemoryRoom, ThatDoesNotSufficeIsSaidWithWhatHelpsAndTheTable) {
  const auto message = [](const RunOptions& options) {
    const absl::Status status =
        CheckRoom(options, {.world_size = kRanks}, {.says = "the attic has $0", .bytes = 1'234'000, .ranks = {0, 1}});
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  RunOptions options = SmallRun(/*stage=*/0, /*rows=*/64);
  options.model.layers = 40;
  EXPECT_THAT(message(options),
              AllOf(ContainsRegex("^2 ranks together need [0-9.]+ MB or more, and the attic has 1.2 MB; less is needed with "
                                  "--stage=3 .[0-9.]+ MB., --activation_checkpoint_every=1 .[0-9.]+ MB., --batch=1 "),
                    HasSubstr("\nMB of a rank"), HasSubstr("    needed  *stage 0   stage 1   stage 2   stage 3\n")));
  // What has been taken already, and what would not help, is not recommended.
  options.engine.stage = 3;
  options.rows = kRanks;
  options.model.checkpoint_every = 1;
  EXPECT_THAT(message(options), HasSubstr("less is needed with a smaller model, more GPUs or machines\n"));
}

}  // namespace
}  // namespace zeroshard::trainer

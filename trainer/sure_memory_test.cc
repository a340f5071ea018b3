// That SureMemory is what a rank's ledgers hold once its run and its evaluations are there, and at most hold later, over every backend that
// is linked in: to the byte, and of activations all but what only plans know.
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "zeroshard/comm/backend_registry.h"
#include "zeroshard/device/device_needs.h"
#include "zeroshard/device/late/test_devices.h"
#include "zeroshard/device/round_up.h"
#include "zeroshard/trainer/evaluation.h"
#include "zeroshard/trainer/memory_room.h"
#include "zeroshard/trainer/step_floor.h"
#include "zeroshard/trainer/testing/small_run.h"
#include "zeroshard/zero/testing/ranks.h"

namespace zeroshard::trainer {
namespace {

using device::Use;

constexpr int64_t kEvaluated = 3;  // micro-batches

// What device/cuda's plans of a SmallRun take that nobody foretells: a copy of each bias (queries, keys and values, the attention's output, and
// two of the MLP), and at most our attention's workspace.
int64_t BiasCopies(const RunOptions& options) { return 4 * (3 + 1 + 4 + 1) * options.model.width; }
int64_t AttentionWorkspace(const RunOptions& options) {
  return device::RoundUp(4 * options.rows * options.model.heads * options.model.context, device::kAlignmentBytes);
}

void ExpectLines(const std::array<LedgerLine, device::kUses>& sure, const device::MemoryLedger& ledger) {
  for (int u = 0; u < device::kUses; ++u) {
    const Use use = static_cast<Use>(u);
    const int64_t bytes = sure[static_cast<size_t>(u)].now;
    if (use == Use::kActivations) {
      EXPECT_LE(bytes, ledger.now(use));
    } else {
      EXPECT_EQ(bytes, ledger.now(use)) << device::Name(use);
    }
  }
}

class SureMemoryTest : public ::testing::TestWithParam<std::tuple<device::TestDevice, int>> {
 protected:
  // As tools:train has them.
  static Surroundings Around(const std::string& backend, int world_size) {
    const std::string device = std::get<0>(GetParam()).name;
    const comm::MemoryRequest request{.opaque = device != "cpu", .scratch_bytes = zero::testing::kScratchBytes};
    const auto communicator = [backend, request](int ranks) {
      comm::MemoryRequest of_ranks = request;
      of_ranks.world_size = ranks;
      return comm::MemoryOf(backend, of_ranks);
    };
    return {.world_size = world_size, .communicator = communicator, .device = device::NeedsOf(device)};
  }

  static void ExpectSure(const RunOptions& options, const std::string& backend, int world_size) {
    const zero::testing::RankOptions ranks{
        .world_size = world_size, .backend_name = backend, .make_device = std::get<0>(GetParam()).make};
    zero::testing::RunOnRanks(ranks, [&](comm::Communicator& communicator) {
      SCOPED_TRACE(absl::StrCat(backend, ", rank ", communicator.rank(), " of ", world_size));
      Surroundings around = Around(backend, world_size);
      around.evaluation = EvaluationSizeOf(options.data, options.model.context, kEvaluated);
      const auto sure = SureMemory(options, around, communicator.rank());
      ASSERT_TRUE(sure.ok()) << sure.status();
      const auto run = testing::StartSmallRun(communicator, options);
      ASSERT_NE(run, nullptr);
      const auto evaluation = Evaluation::Create(*run, options.data, kEvaluated);
      ASSERT_TRUE(evaluation.ok()) << evaluation.status();
      const device::MemoryLedger &ledger = communicator.device().ledger(), &host = communicator.device().host().ledger();
      ExpectLines(sure->ledger, ledger);
      ExpectLines(sure->host_ledger, host);
      ExpectActivations(options, sure->ledger[static_cast<size_t>(Use::kActivations)].now, ledger);
      ASSERT_TRUE(run->Step(false).ok());
      ASSERT_TRUE((*evaluation)->Run().ok());
      for (const Use use : {Use::kParameters, Use::kGradients, Use::kMasterWeights, Use::kMoments}) {
        EXPECT_EQ(sure->ledger[static_cast<size_t>(use)].now, ledger.peak(use)) << device::Name(use);
      }
      ExpectLines(sure->ledger, ledger);
      ExpectLines(sure->host_ledger, host);
    });
  }

  static void ExpectActivations(const RunOptions& options, int64_t sure, const device::MemoryLedger& ledger) {
    if (std::get<0>(GetParam()).name != std::string("cuda")) return;
    EXPECT_GE(ledger.now(Use::kActivations), sure + BiasCopies(options));
    EXPECT_LE(ledger.now(Use::kActivations), sure + BiasCopies(options) + AttentionWorkspace(options));
  }
};

TEST_P(SureMemoryTest, IsWhatLedgersHoldInEveryWorld) {
  const int stage = std::get<1>(GetParam());
  RunOptions options = testing::SmallRun(stage, /*rows=*/4);
  options.engine.dtype = device::DType::kBfloat16;
  ASSERT_GE(comm::Backends().size(), 3u);
  for (const std::string& backend : comm::Backends()) {
    for (const int world_size : {1, 2, 3, 4}) ExpectSure(options, backend, world_size);
    options.engine.accumulation = 2;
    ExpectSure(options, backend, 2);
    options.engine.accumulation = 1;
  }
}

TEST_P(SureMemoryTest, IsThatOfGroupsAndOfOffloadedStateToo) {
  const int stage = std::get<1>(GetParam());
  if (stage == 0) return;
  for (const std::string& backend : comm::Backends()) {
    for (const int shard_size : {1, 2}) {
      RunOptions options = testing::SmallRun(stage, /*rows=*/4);
      options.engine.shard_size = shard_size;
      ExpectSure(options, backend, 4);
    }
    RunOptions options = testing::SmallRun(stage, /*rows=*/3);
    options.engine.offload_optimizer.target = zero::OffloadTarget::kHost;
    options.model.checkpoint_every = 1;
    options.model.checkpoints_on_host = true;
    ExpectSure(options, backend, 2);
  }
}

TEST_P(SureMemoryTest, IsThatOfMuonToo) {
  const int stage = std::get<1>(GetParam());
  RunOptions options = testing::SmallRun(stage, /*rows=*/4);
  options.engine.partition = zero::Partition::kTensor;
  options.engine.optimizer.kind = optim::Kind::kMuon;
  options.engine.optimizer.momentum = 0.9;
  options.engine.optimizer.groups[0].orthogonal = true;
  for (const std::string& backend : comm::Backends()) {
    for (const int world_size : {1, 2, 3}) ExpectSure(options, backend, world_size);
  }
  if (stage == 0) return;
  options.engine.offload_optimizer.target = zero::OffloadTarget::kHost;
  options.engine.sub_group_size = 5000;
  for (const double ratio : {1.0, 0.5}) {
    options.engine.offload_ratio = ratio;
    ExpectSure(options, "in_process", 2);
  }
}

TEST_P(SureMemoryTest, IsThatOfAStepsFloorToo) {
  if (std::get<1>(GetParam()) > 0) return;
  for (const std::string& backend : comm::Backends()) {
    const RunOptions options = testing::SmallRun(/*stage=*/2, /*rows=*/4);
    const zero::testing::RankOptions ranks{
        .world_size = 2, .backend_name = backend, .make_device = std::get<0>(GetParam()).make};
    zero::testing::RunOnRanks(ranks, [&](comm::Communicator& communicator) {
      const auto sure = SureMemory(options, Around(backend, 2), communicator.rank(), RoomWork::kStepFloor);
      ASSERT_TRUE(sure.ok()) << sure.status();
      ASSERT_TRUE(MeasureStepFloor(communicator, options, /*steps=*/1).ok());
      const device::MemoryLedger& ledger = communicator.device().ledger();
      const auto line = [&](Use use) { return sure->ledger[static_cast<size_t>(use)].now; };
      EXPECT_GT(line(Use::kGradients), 0);
      for (const Use use : {Use::kParameters, Use::kGradients, Use::kMasterWeights, Use::kMoments}) {
        EXPECT_EQ(line(use), ledger.peak(use)) << device::Name(use);
      }
      EXPECT_EQ(line(Use::kCommunication), ledger.now(Use::kCommunication));
      EXPECT_EQ(line(Use::kData), 0);
      EXPECT_LE(line(Use::kActivations), ledger.peak(Use::kActivations));
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, SureMemoryTest,
                         ::testing::Combine(::testing::ValuesIn(device::TestDevices()), ::testing::Range(0, 4)),
                         [](const auto& which) {
                           return absl::StrCat(std::get<0>(which.param).name, "Stage", std::get<1>(which.param));
                         });

}  // namespace
}  // namespace zeroshard::trainer

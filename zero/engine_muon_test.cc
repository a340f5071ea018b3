// Muon has the same bits in every stage in which its matrices are whole, on any number of ranks' owners.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "zeroshard/device/memory_ledger.h"
#include "zeroshard/zero/testing/expect_reference.h"
#include "zeroshard/zero/testing/ranks.h"
#include "zeroshard/zero/testing/toy_options.h"
#include "zeroshard/zero/testing/training.h"

namespace zeroshard::zero {
namespace {

using device::DType;
using ::testing::HasSubstr;

std::vector<model::UnitSpec> Units() {
  return {{.name = "first", .parameters = {{.name = "embedding", .shape = {9, 5}, .group = 1}}},
          {.name = "block",
           .parameters = {{.name = "wide", .shape = {6, 20}},
                          {.name = "bias", .shape = {7}, .group = 1},
                          {.name = "tall", .shape = {20, 6}},
                          {.name = "empty", .shape = {0, 4}},
                          {.name = "square", .shape = {12, 12}}}}};
}

EngineOptions Options(int stage, Partition partition) {
  EngineOptions options = testing::ToyOptions(stage, partition);
  options.reduce_bucket_size = 200;
  options.optimizer = {.kind = optim::Kind::kMuon,
                       .momentum = 0.9,
                       .nesterov = true,
                       .schedule = {.learning_rate = 0.02},
                       .groups = {{.weight_decay = 0.1, .orthogonal = true}, {.weight_decay = 0}}};
  return options;
}

testing::TrainingRun RunOf(const EngineOptions& options, int world_size) {
  testing::TrainingRun kept;
  testing::RunOnRanks({.world_size = world_size}, [&](comm::Communicator& communicator) {
    absl::StatusOr<testing::TrainingRun> run = testing::Train(communicator, Units(), options, {.steps = 3});
    EXPECT_TRUE(run.ok()) << run.status();
    if (!run.ok()) return communicator.Abort(run.status());
    if (communicator.rank() == 0) kept = *std::move(run);
  });
  return kept;
}

TEST(EngineMuon, EveryStageWithWholeMatricesHasStageZerosBits) {
  for (int world_size : {1, 2, 3}) {
    const testing::TrainingRun expected = RunOf(Options(0, Partition::kFlat), world_size);
    ASSERT_FALSE(expected.weights.empty());
    for (int stage : {0, 1, 2, 3}) {
      const testing::TrainingRun run = RunOf(Options(stage, Partition::kTensor), world_size);
      EXPECT_EQ(run.losses, expected.losses) << "stage " << stage << ", world " << world_size;
      EXPECT_EQ(run.weights, expected.weights) << "stage " << stage << ", world " << world_size;
      EXPECT_EQ(run.moments[0], expected.moments[0]) << "stage " << stage << ", world " << world_size;
    }
  }
}

TEST(EngineMuon, WhereMatricesAreCutItIsRefusedWithTheReason) {
  for (int stage : {1, 2, 3}) {
    EXPECT_THAT(std::string(Validate(Options(stage, Partition::kFlat)).message()),
                HasSubstr("a flat partition cuts matrices in parts, and Muon needs them whole; take partition tensor"));
  }
}

// Sub-groups of a matrix each, of several, and of all; what stays in device memory ends with a matrix too.
TEST(EngineMuon, OffloadedStateHasStageZerosBits) {
  for (DType dtype : {DType::kFloat32, DType::kBfloat16}) {
    EngineOptions plain = Options(0, Partition::kFlat);
    plain.dtype = dtype;
    for (int world_size : {1, 2, 3}) {
      const testing::TrainingRun expected = RunOf(plain, world_size);
      for (int stage : {1, 2, 3}) {
        for (OffloadTarget target : {OffloadTarget::kHost, OffloadTarget::kFile}) {
          for (const auto& [size, ratio] : {std::pair(1, 1.0), {200, 0.5}, {1'000'000, 1.0}}) {
            EngineOptions options = Options(stage, Partition::kTensor);
            options.dtype = dtype;
            options.offload_optimizer = {.target = target, .folder = ::testing::TempDir()};
            options.sub_group_size = size;
            options.offload_ratio = ratio;
            if (stage == 3 && ratio == 1) options.offload_parameters.target = OffloadTarget::kHost;
            SCOPED_TRACE(testing::Describe(options, world_size));
            const testing::TrainingRun run = RunOf(options, world_size);
            EXPECT_EQ(run.losses, expected.losses);
            EXPECT_EQ(run.weights, expected.weights);
            EXPECT_EQ(run.moments[0], expected.moments[0]);
            EXPECT_EQ(run.moments[1], expected.moments[1]);
          }
        }
      }
    }
  }
}

TEST(EngineMuon, OffloadedStateIsInTheHostsLedgerAsPredicted) {
  EngineOptions options = Options(2, Partition::kTensor);
  options.offload_optimizer.target = OffloadTarget::kHost;
  options.sub_group_size = 200;
  testing::RunOnRanks({.world_size = 2}, [&](comm::Communicator& communicator) {
    auto engine = Engine::Create(communicator, Units(), options);
    ASSERT_TRUE(engine.ok()) << engine.status();
    const device::MemoryLedger& host = communicator.device().host().ledger();
    for (device::Use use : {device::Use::kGradients, device::Use::kMoments, device::Use::kCommunication}) {
      EXPECT_GT(host.now(use), 0);
      EXPECT_EQ(host.now(use), host.predicted(use)) << device::Name(use);
    }
    EXPECT_EQ(communicator.device().ledger().now(device::Use::kMoments), 0);
  });
}

TEST(EngineMuon, ParametersInAFileAreRefusedWithTheReason) {
  EngineOptions options = Options(3, Partition::kTensor);
  options.offload_optimizer.target = OffloadTarget::kHost;
  options.offload_parameters = {.target = OffloadTarget::kFile, .folder = ::testing::TempDir()};
  EXPECT_THAT(std::string(Validate(options).message()), HasSubstr("do not end where a file's pages do"));
}

}  // namespace
}  // namespace zeroshard::zero

// Activation checkpointing: the same bits, the memory that is promised, and copies to the host that nothing races with.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "zeroshard/device/late/end_test.h"
#include "zeroshard/device/late/test_devices.h"
#include "zeroshard/model/gpt.h"
#include "zeroshard/model/random_run.h"

namespace zeroshard::model {
namespace {

using device::Use;
using device::WriteMode;

GptOptions Options(int64_t layers, int64_t every = 0, bool on_host = false) {
  return {.layers = layers,
          .heads = 2,
          .width = 16,
          .context = 9,
          .vocab = 41,
          .batch = 2,
          .checkpoint_every = every,
          .checkpoints_on_host = on_host};
}

struct Outcome {
  double loss;
  std::map<std::string, std::vector<float>> gradients;
  bool operator==(const Outcome&) const = default;
};

Outcome OutcomeOf(SingleRank& rank) {
  Outcome outcome{.loss = rank.LossSum(), .gradients = {}};
  for (const ParameterSpec& parameter : rank.stored()) outcome.gradients[parameter.name] = rank.ReadGradient(parameter.name);
  return outcome;
}

// Three micro-batches queued one after another, a fourth that is dropped in the middle of backward, and one more.
Outcome RunOn(device::Device& device, const GptOptions& options) {
  RandomRun run(device, options, /*rows=*/2);
  const auto go = [&](uint32_t tokens, WriteMode mode) {
    run.NewTokens(tokens);
    EXPECT_TRUE(run.rank().Run(run.micro_batch(), mode).ok());
  };
  go(10, WriteMode::kOverwrite);
  go(11, WriteMode::kAccumulate);
  go(12, WriteMode::kAccumulate);
  const Outcome three = OutcomeOf(run.rank());
  EXPECT_TRUE(run.rank().Forward(run.micro_batch()).ok());
  const int head = static_cast<int>(options.layers) + 1;
  const std::vector<GradientTarget> none(3);
  EXPECT_TRUE(run.rank().gpt().Backward(run.rank().stream(), head, run.rank().parameters(head), none).ok());
  MicroBatch evaluation = run.micro_batch();
  evaluation.purpose = Purpose::kEvaluate;
  EXPECT_TRUE(run.rank().Forward(evaluation).ok());
  EXPECT_EQ(run.rank().LossSum(), three.loss);
  go(13, WriteMode::kAccumulate);
  return OutcomeOf(run.rank());
}

TEST(GptCheckpointTest, EveryGroupingGivesTheSameBits) {
  const auto device = device::MakeTestDevice();
  for (const int64_t layers : {1, 2, 3, 5}) {
    const Outcome want = RunOn(*device, Options(layers));
    for (const int64_t every : {1, 2, 3, 7}) {
      for (const bool on_host : {false, true}) {
        EXPECT_EQ(RunOn(*device, Options(layers, every, on_host)), want) << layers << " " << every << " " << on_host;
      }
    }
  }
}

TEST(GptCheckpointTest, OnALateDevice_NothingRacesAndTheBitsAreTheSame) {
  const Outcome want = RunOn(*device::MakeTestDevice(), Options(5));
  for (const device::LateOrder order :
       {device::LateOrder::kAtOnce, device::LateOrder::kLazy, device::LateOrder::kOneFirst, device::LateOrder::kRandom}) {
    for (const auto first : {device::StreamKind::kCopyDown, device::StreamKind::kCopyUp}) {
      for (const int64_t every : {1, 2, 3}) {
        for (const bool on_host : {false, true}) {
          const auto late = device::MakeOrderedDevice({.order = order, .first = first, .seed = 3});
          EXPECT_EQ(RunOn(*late, Options(5, every, on_host)), want) << every << " " << on_host;
        }
      }
    }
  }
}

TEST(GptCheckpointTest, EachWaitOfTheCopies_IsCaughtWhereItIsLeftOut) {
  const GptOptions options = Options(5, 1, /*on_host=*/true);
  const auto whole = device::MakeOrderedDevice({});
  RunOn(*whole, options);
  int tried = 0;
  for (const device::WaitPoint& point : device::WaitsOf(*whole)) {
    EXPECT_EXIT(
        {
          const auto device = device::MakeOrderedDevice({}, point);
          RunOn(*device, options);
          std::exit(0);
        },
        testing::ExitedWithCode(device::kLateExitCode), "")
        << "stream " << point.stream << ", wait " << point.index;
    ++tried;
  }
  EXPECT_GT(tried, 20);
}

TEST(GptCheckpointTest, MemoryIsOneInputAGroupAndOneGroupsActivations) {
  const int64_t rows = 2 * 9, width = 16, input = rows * width * 4;
  const auto aligned = [](int64_t elements) {
    return (elements * 4 + device::kAlignmentBytes - 1) / device::kAlignmentBytes * device::kAlignmentBytes;
  };
  const int64_t block = 3 * aligned(rows * width) + aligned(3 * rows * width) + aligned(4 * rows * width) +
                        2 * aligned(rows) + aligned(2 * rows);
  const auto bytes = [](const GptOptions& options) {
    const auto device = device::MakeTestDevice();
    RandomRun run(*device, options, /*rows=*/2);
    const int64_t charges = device->ledger().charges();
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(run.rank().Run(run.micro_batch(), WriteMode::kOverwrite).ok());
    EXPECT_EQ(device->ledger().charges(), charges);
    const int64_t now = device->ledger().now(Use::kActivations);
    EXPECT_EQ(now, device->ledger().predicted(Use::kActivations));
    EXPECT_EQ(now, run.rank().gpt().activation_bytes());
    const device::MemoryLedger& host = device->host().ledger();
    EXPECT_EQ(host.now(Use::kActivations), host.predicted(Use::kActivations));
    return std::pair(now, host.now(Use::kActivations));
  };
  using Held = std::pair<int64_t, int64_t>;
  const int64_t all = bytes(Options(7)).first;
  // The last group's activations are there when backward begins: its input is not kept.
  EXPECT_EQ(bytes(Options(7, 1)), Held(all - 6 * block + 6 * input, 0));
  EXPECT_EQ(bytes(Options(7, 2)), Held(all - 5 * block + 3 * input, 0));
  EXPECT_EQ(bytes(Options(7, 3)), Held(all - 4 * block + 2 * input, 0));
  EXPECT_EQ(bytes(Options(7, 7)), Held(all, 0));
  EXPECT_EQ(bytes(Options(7, 100)), Held(all, 0));
  // On the host: as many there, and two at most on the device.
  EXPECT_EQ(bytes(Options(7, 1, true)), Held(all - 6 * block + 2 * input, 6 * input));
  EXPECT_EQ(bytes(Options(7, 4, true)), Held(all - 3 * block + input, input));
  EXPECT_EQ(bytes(Options(7, 7, true)), Held(all, 0));
}

TEST(GptCheckpointTest, UnitsOutOfTurn_AreRefused) {
  const auto device = device::MakeTestDevice();
  RandomRun run(*device, Options(4, 2), 2);
  SingleRank& rank = run.rank();
  Gpt& gpt = rank.gpt();
  ASSERT_TRUE(rank.Forward(run.micro_batch()).ok());
  for (const int unit : {5, 4, 3}) {
    EXPECT_EQ(gpt.Recompute(rank.stream(), 1, rank.parameters(1)).code(), absl::StatusCode::kFailedPrecondition);
    ASSERT_TRUE(gpt.Backward(rank.stream(), unit, rank.parameters(unit), rank.targets(unit)).ok());
  }
  const absl::Status early = gpt.Backward(rank.stream(), 2, rank.parameters(2), rank.targets(2));
  EXPECT_EQ(early.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(early.message(), "backward of unit 2 out of turn: the micro-batch is at recomputation of unit 1");
  ASSERT_TRUE(gpt.Recompute(rank.stream(), 1, rank.parameters(1)).ok());
  EXPECT_TRUE(gpt.Backward(rank.stream(), 2, rank.parameters(2), rank.targets(2)).ok());
}

}  // namespace
}  // namespace zeroshard::model

#include "zeroshard/model/gpt.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "zeroshard/device/late/test_devices.h"
#include "zeroshard/model/gpt_activations.h"
#include "zeroshard/model/random_run.h"
#include "zeroshard/model/reference_gpt.h"

namespace zeroshard::model {
namespace {

using device::WriteMode;
using Gradients = std::map<std::string, std::vector<float>>;

const GptOptions kSmall = {.layers = 2, .heads = 3, .width = 24, .context = 11, .vocab = 41, .tied = true, .batch = 3};

Gradients ReadGradients(SingleRank& rank) {
  Gradients gradients;
  for (const ParameterSpec& parameter : rank.stored()) {
    if (parameter.trainable) gradients[parameter.name] = rank.ReadGradient(parameter.name);
  }
  return gradients;
}

struct Outcome {
  double loss;
  Gradients gradients;
  bool operator==(const Outcome&) const = default;
};

Outcome RunOn(device::Device& device, const GptOptions& options, int64_t rows) {
  RandomRun run(device, options, rows);
  EXPECT_TRUE(run.rank().Run(run.micro_batch(), WriteMode::kOverwrite).ok());
  return {run.rank().LossSum(), ReadGradients(run.rank())};
}

class GptTest : public testing::Test {
 protected:
  std::unique_ptr<device::Device> device_ = device::MakeTestDevice();
};

TEST_F(GptTest, FewerRows_AreAFullMicroBatchWithoutTargets) {
  const auto another = device::MakeTestDevice();
  RandomRun few(*device_, kSmall, /*rows=*/2), full(*another, kSmall, /*rows=*/3);
  const int64_t tokens = 2 * kSmall.context;
  std::fill(full.inputs().begin() + tokens, full.inputs().end(), 0);
  std::copy(few.inputs().begin(), few.inputs().end(), full.inputs().begin());
  std::fill(full.targets().begin() + tokens, full.targets().end(), kNoTarget);
  std::copy(few.targets().begin(), few.targets().end(), full.targets().begin());
  ASSERT_TRUE(few.rank().Run(few.micro_batch(), WriteMode::kOverwrite).ok());
  ASSERT_TRUE(full.rank().Run(full.micro_batch(), WriteMode::kOverwrite).ok());
  EXPECT_EQ(few.rank().LossSum(), full.rank().LossSum());
  EXPECT_EQ(ReadGradients(few.rank()), ReadGradients(full.rank()));
  EXPECT_EQ(few.rank().gpt().target_tokens(), tokens);
}

TEST_F(GptTest, NoRows_GiveNoLossAndZeroGradients) {
  RandomRun run(*device_, kSmall, /*rows=*/0);
  ASSERT_TRUE(run.rank().Run(run.micro_batch(), WriteMode::kOverwrite).ok());
  EXPECT_EQ(run.rank().LossSum(), 0);
  EXPECT_EQ(run.rank().gpt().target_tokens(), 0);
  for (const auto& [name, gradient] : ReadGradients(run.rank())) {
    EXPECT_TRUE(std::all_of(gradient.begin(), gradient.end(), [](float g) { return g == 0; })) << name;
  }
}

TEST_F(GptTest, FrozenParameters_AreLeftAloneAndChangeNoOtherGradient) {
  for (const bool tied : {true, false}) {
    GptOptions options = kSmall;
    options.tied = tied;
    const Gradients all = RunOn(*device_, options, 3).gradients;
    for (const auto& [name, gradient] : all) {
      options.frozen = {name};
      RandomRun run(*device_, options, 3);
      ASSERT_TRUE(run.rank().Run(run.micro_batch(), WriteMode::kOverwrite).ok());
      Gradients expected = all;
      expected.erase(name);
      EXPECT_EQ(ReadGradients(run.rank()), expected) << name;
      const std::vector<float> untouched = run.rank().ReadGradient(name);
      EXPECT_TRUE(std::all_of(untouched.begin(), untouched.end(), [](float g) { return g == 0; })) << name;
    }
  }
}

TEST_F(GptTest, Accumulate_AddsAMicroBatchToWhatIsThere) {
  for (const bool tied : {true, false}) {
    GptOptions options = kSmall;
    options.tied = tied;
    RandomRun run(*device_, options, 3);
    const auto gradients = [&](uint32_t tokens, WriteMode mode) {
      run.NewTokens(tokens);
      EXPECT_TRUE(run.rank().Run(run.micro_batch(), mode).ok());
      return ReadGradients(run.rank());
    };
    const Gradients a = gradients(10, WriteMode::kOverwrite), b = gradients(11, WriteMode::kOverwrite);
    EXPECT_EQ(gradients(10, WriteMode::kOverwrite), a);
    for (const auto& [name, sum] : gradients(11, WriteMode::kAccumulate)) {
      for (size_t i = 0; i < sum.size(); ++i) {
        const double want = static_cast<double>(a.at(name)[i]) + b.at(name)[i];
        ASSERT_NEAR(sum[i], want, 2e-6 * (1 + std::abs(want))) << name << " " << i;
      }
    }
  }
}

// Where the device wants rows of logits a multiple of some columns apart (a GPU: 128), they alone are: what is stored has the vocabulary.
TEST_F(GptTest, AnOddVocabularyIsPaddedInTheLogitsAlone) {
  GptOptions full = kSmall;
  full.vocab = 128;
  const device::LossBlocks blocks = device_->transformer().loss_blocks(kSmall.dtype);
  const bool pads = blocks.stride_of == 128;
  EXPECT_EQ(pads, device_->name() == "cuda");
  EXPECT_EQ(GptActivations::Bytes(kSmall, blocks, 0) == GptActivations::Bytes(full, blocks, 0), pads);
  RandomRun odd(*device_, kSmall, 3);
  ASSERT_TRUE(odd.rank().Run(odd.micro_batch(), WriteMode::kOverwrite).ok());
  const ParameterSpec& matrix = odd.rank().stored().front();
  EXPECT_EQ(matrix.name, "transformer.wte.weight");
  EXPECT_EQ(matrix.shape, (std::vector<int64_t>{kSmall.vocab, kSmall.width}));
  EXPECT_EQ(odd.rank().gpt().units().back().parameters.back().shape, matrix.shape);
  EXPECT_EQ(odd.rank().ReadGradient(matrix.name).size(), static_cast<size_t>(kSmall.vocab * kSmall.width));
}

TEST_F(GptTest, BitsDependNeitherOnPlaceNorOnWhatRanBefore) {
  const Outcome first = RunOn(*device_, kSmall, 3);
  RandomRun other(*device_, kSmall, 3, /*seed=*/9);
  ASSERT_TRUE(other.rank().Run(other.micro_batch(), WriteMode::kOverwrite).ok());
  EXPECT_NE(other.rank().LossSum(), first.loss);
  const auto odd = device_->Allocate(12345, device::Use::kData, "moves what comes after");
  RandomRun moved(*device_, kSmall, 3);
  for (int repeat = 0; repeat < 3; ++repeat) {
    ASSERT_TRUE(moved.rank().Run(moved.micro_batch(), WriteMode::kOverwrite).ok());
    EXPECT_EQ((Outcome{moved.rank().LossSum(), ReadGradients(moved.rank())}), first);
  }
}

TEST_F(GptTest, OnALateDevice_NothingRacesAndTheBitsAreTheSame) {
  const Outcome want = RunOn(*device_, kSmall, 2);
  for (const device::LateOrder order : {device::LateOrder::kAtOnce, device::LateOrder::kLazy, device::LateOrder::kRandom}) {
    const auto late = device::MakeOrderedDevice({.order = order});
    EXPECT_EQ(RunOn(*late, kSmall, 2), want);
  }
}

TEST_F(GptTest, MicroBatchesQueuedAhead_EachSeeTheirOwnTokens) {
  const auto late = device::MakeOrderedDevice({.order = device::LateOrder::kLazy});
  RandomRun ahead(*late, kSmall, 3), alone(*device_, kSmall, 3);
  for (uint32_t tokens = 20; tokens < 25; ++tokens) {
    ahead.NewTokens(tokens);
    ASSERT_TRUE(ahead.rank().Run(ahead.micro_batch(), tokens == 20 ? WriteMode::kOverwrite : WriteMode::kAccumulate).ok());
    alone.NewTokens(tokens);
    ASSERT_TRUE(alone.rank().Run(alone.micro_batch(), tokens == 20 ? WriteMode::kOverwrite : WriteMode::kAccumulate).ok());
  }
  EXPECT_EQ(ahead.rank().LossSum(), alone.rank().LossSum());
  EXPECT_EQ(ReadGradients(ahead.rank()), ReadGradients(alone.rank()));
}

TEST_F(GptTest, Evaluation_GivesTheLossOfTraining) {
  for (const int64_t vocab : {41, 1100}) {
    GptOptions options = kSmall;
    options.vocab = vocab;
    RandomRun run(*device_, options, 3);
    ASSERT_TRUE(run.rank().Run(run.micro_batch(), WriteMode::kOverwrite).ok());
    const double training = run.rank().LossSum();
    MicroBatch evaluation = run.micro_batch();
    evaluation.purpose = Purpose::kEvaluate;
    ASSERT_TRUE(run.rank().Forward(evaluation).ok());
    EXPECT_EQ(run.rank().LossSum(), training);
  }
}

TEST_F(GptTest, Logits_AreTheFormulas) {
  RandomRun run(*device_, kSmall, 2);
  MicroBatch sample = run.micro_batch();
  sample.targets = {};
  sample.purpose = Purpose::kSample;
  ASSERT_TRUE(run.rank().Forward(sample).ok());
  const ReferenceGpt reference(kSmall, [&](const std::string& name) { return run.rank().ReadParameter(name); });
  const auto memory = device_->Allocate(kSmall.vocab * 4, device::Use::kData, "logits");
  const device::Array logits = memory->array(device::DType::kFloat32);
  const int head = static_cast<int>(kSmall.layers) + 1;
  for (const int64_t position : {0, 5, 10}) {
    ASSERT_TRUE(run.rank().gpt().Logits(run.rank().stream(), run.rank().parameters(head), 1, position, logits).ok());
    std::vector<float> got(kSmall.vocab);
    device_->CopyToHost(run.rank().stream(), logits, got.data());
    run.rank().stream().Synchronize();
    const std::vector<double> want = reference.Logits(run.inputs(), 2, 1, position);
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5 * (1 + std::abs(want[i])));
  }
  EXPECT_EQ(run.rank().gpt().Logits(run.rank().stream(), run.rank().parameters(head), 3, 0, logits).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(GptTest, Memory_IsPredictedAndAllocatedAtStart) {
  RandomRun run(*device_, kSmall, 3);
  const auto activations = device::Use::kActivations;
  EXPECT_EQ(device_->ledger().now(activations), device_->ledger().predicted(activations));
  EXPECT_EQ(device_->ledger().now(activations), run.rank().gpt().activation_bytes());
  const int64_t charges = device_->ledger().charges();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(run.rank().Run(run.micro_batch(), WriteMode::kOverwrite).ok());
  EXPECT_EQ(device_->ledger().charges(), charges);
}

TEST_F(GptTest, UnitsOutOfTurn_AreRefused) {
  RandomRun run(*device_, kSmall, 3);
  SingleRank& rank = run.rank();
  Gpt& gpt = rank.gpt();
  const auto forward = [&](int unit) { return gpt.Forward(rank.stream(), unit, rank.parameters(unit)); };
  const auto backward = [&](int unit) {
    return gpt.Backward(rank.stream(), unit, rank.parameters(unit), rank.targets(unit));
  };
  EXPECT_EQ(forward(0).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(gpt.BeginMicroBatch(rank.stream(), run.micro_batch()).ok());
  EXPECT_EQ(forward(1).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(backward(3).code(), absl::StatusCode::kFailedPrecondition);
  for (int unit = 0; unit < 4; ++unit) ASSERT_TRUE(forward(unit).ok());
  EXPECT_EQ(gpt.Forward(rank.stream(), 4, rank.parameters(3)).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(gpt.Forward(rank.stream(), -1, rank.parameters(0)).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(backward(2).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(backward(3).ok());
  EXPECT_EQ(backward(3).code(), absl::StatusCode::kFailedPrecondition);
  // A step abandoned half way harms nobody.
  ASSERT_TRUE(rank.Run(run.micro_batch(), WriteMode::kOverwrite).ok());

  MicroBatch evaluation = run.micro_batch();
  evaluation.purpose = Purpose::kEvaluate;
  ASSERT_TRUE(rank.Forward(evaluation).ok());
  EXPECT_EQ(backward(3).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(GptTest, ParametersAndTargetsThatDoNotFit_AreNamed) {
  RandomRun run(*device_, kSmall, 3);
  SingleRank& rank = run.rank();
  ASSERT_TRUE(rank.gpt().BeginMicroBatch(rank.stream(), run.micro_batch()).ok());
  const auto parameters = rank.parameters(0);
  EXPECT_EQ(rank.gpt().Forward(rank.stream(), 0, parameters.first(1)).code(), absl::StatusCode::kInvalidArgument);
  const std::vector<device::Array> swapped = {parameters[1], parameters[0]};
  const absl::Status status = rank.gpt().Forward(rank.stream(), 0, swapped);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("transformer.wte.weight"), absl::string_view::npos) << status;
}

TEST_F(GptTest, BadTokensAndRows_AreRefusedByPlace) {
  RandomRun run(*device_, kSmall, 2);
  const auto begin = [&](const MicroBatch& micro_batch) {
    const absl::Status status = run.rank().gpt().BeginMicroBatch(run.rank().stream(), micro_batch);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  MicroBatch micro_batch = run.micro_batch();
  micro_batch.rows = 4;
  EXPECT_NE(begin(micro_batch).find("4 rows"), std::string::npos);
  micro_batch.rows = 1;
  EXPECT_NE(begin(micro_batch).find("takes 11 inputs"), std::string::npos);
  run.inputs()[13] = 41;
  EXPECT_NE(begin(run.micro_batch()).find("input token 41 in row 1, position 2"), std::string::npos);
  run.inputs()[13] = 0;
  run.targets()[3] = -2;
  EXPECT_NE(begin(run.micro_batch()).find("target token -2 in row 0, position 3"), std::string::npos);
}

}  // namespace
}  // namespace zeroshard::model

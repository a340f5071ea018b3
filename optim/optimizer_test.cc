#include "zeroshard/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "zeroshard/device/exact_sum.h"
#include "zeroshard/device/late/test_devices.h"

namespace zeroshard::optim {
namespace {

using device::Array;
using device::Buffer;
using device::DType;
using device::StepScalars;
using device::Use;
using testing::ElementsAre;
using testing::HasSubstr;
using Runs = std::vector<Run>;

// A shard on a device, the gradient that is put into it, and an optimizer.
class OptimizerTest : public testing::TestWithParam<device::TestDevice> {
 protected:
  void Make(const OptimizerOptions& options, int64_t elements, Runs runs) {
    auto optimizer = Optimizer::Create(*device_, options, elements, std::move(runs));
    ASSERT_TRUE(optimizer.ok()) << optimizer.status();
    optimizer_ = *std::move(optimizer);
    weights_ = New(elements);
    gradients_ = New(elements);
    sum_ = *device_->Allocate(8 * device::kExactSumWords, Use::kCommunication, "sum");
    scalars_ = *device_->Allocate(sizeof(StepScalars), Use::kCommunication, "scalars");
  }

  Buffer New(int64_t elements) { return *device_->Allocate(4 * elements, Use::kParameters, "test"); }

  void Write(const Buffer& buffer, const std::vector<float>& values) {
    device_->CopyFromHost(*stream_, values.data(), buffer.array(DType::kFloat32));
    stream_->Synchronize();
  }
  std::vector<float> Read(const Array& array) {
    std::vector<float> values(static_cast<size_t>(array.elements()));
    device_->CopyToHost(*stream_, array, values.data());
    stream_->Synchronize();
    return values;
  }
  std::vector<float> Weights() { return Read(weights_.array(DType::kFloat32)); }
  std::vector<float> State(size_t i) { return Read(optimizer_->state()[i].array); }

  // One step; the norm is over the runs.
  StepScalars Derive(const std::vector<float>& gradients, double scale, double clip, std::optional<double> rate = {}) {
    Write(gradients_, gradients);
    const Array sum = sum_.array(DType::kInt64);
    device_->elementwise().Fill(*stream_, sum, 0);
    const Array all = gradients_.array(DType::kFloat32);
    device_->step().AddPowers(*stream_, all, device::OnePiece(all.elements()), 2, sum);
    device_->step().DeriveScalars(*stream_, sum, MakeStepRule(optimizer_->options(), scale, clip), rate,
                                  scalars_.array(DType::kUint8));
    StepScalars host;
    device_->CopyToHost(*stream_, scalars_.array(DType::kUint8), &host);
    stream_->Synchronize();
    return host;
  }
  absl::Status Apply(int64_t first, int64_t count) {
    return optimizer_->Apply(*stream_, {.first = first,
                                        .weights = weights_.array(DType::kFloat32).Slice(first, count),
                                        .gradients = gradients_.array(DType::kFloat32).Slice(first, count),
                                        .scalars = scalars_.array(DType::kUint8)});
  }
  StepScalars Step(const std::vector<float>& gradients, double scale = 1, double clip = 0) {
    const StepScalars scalars = Derive(gradients, scale, clip);
    EXPECT_TRUE(Apply(0, optimizer_->elements()).ok());
    return scalars;
  }

  std::unique_ptr<device::Device> device_ = GetParam().make();
  std::unique_ptr<device::Stream> stream_ = device_->MakeStream(device::StreamKind::kCompute);
  std::unique_ptr<Optimizer> optimizer_;
  Buffer weights_, gradients_, sum_, scalars_;
};

std::vector<float> Normal(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& v : values) v = normal(random);
  return values;
}

// The papers' and PyTorch's rules, in fp64, one element.
struct Reference {
  double w = 0, m = 0, v = 0;

  void Adam(const OptimizerOptions& o, const GroupOptions& group, double g, double lr, int64_t t) {
    if (o.kind == Kind::kAdam) g += group.weight_decay * w;
    m = o.beta1 * m + (1 - o.beta1) * g;
    v = o.beta2 * v + (1 - o.beta2) * g * g;
    const double mean = m / (1 - std::pow(o.beta1, t));
    const double square = v / (1 - std::pow(o.beta2, t));
    if (o.kind == Kind::kAdamW) w -= lr * group.weight_decay * w;
    w -= lr * mean / (std::sqrt(square) + o.eps);
  }
  void Sgd(const OptimizerOptions& o, const GroupOptions& group, double g, double lr, int64_t t) {
    g += group.weight_decay * w;
    m = t == 1 ? g : o.momentum * m + g;
    w -= lr * (o.nesterov ? g + o.momentum * m : m);
  }
  void Step(const OptimizerOptions& o, const GroupOptions& group, double g, double rate, int64_t t) {
    const double lr = rate * group.learning_rate_scale;
    o.kind == Kind::kSgd ? Sgd(o, group, g, lr, t) : Adam(o, group, g, lr, t);
  }
};

OptimizerOptions Golden(Kind kind, double momentum = 0, bool nesterov = false) {
  OptimizerOptions options{.kind = kind, .momentum = momentum, .nesterov = nesterov};
  options.schedule = {.kind = ScheduleKind::kCosine,
                      .learning_rate = kind == Kind::kSgd ? 0.3 : 3e-3,
                      .min_learning_rate = kind == Kind::kSgd ? 0.03 : 3e-4,
                      .warmup_steps = 5,
                      .total_steps = 20};
  options.groups = {{.weight_decay = 0.1}, {.weight_decay = 0}, {.weight_decay = 1e-3, .learning_rate_scale = 0.5}};
  return options;
}

class OptimizerRulesTest : public OptimizerTest {
 protected:
  void ExpectTwentyStepsLikeTheReference(const OptimizerOptions& options) {
    constexpr size_t kElements = 600;
    Make(options, kElements, {{0, 205, 0}, {205, 195, 1}, {400, 200, 2}});
    const std::vector<float> start = Normal(kElements, 1);
    Write(weights_, start);
    std::vector<Reference> reference(kElements);
    for (size_t i = 0; i < kElements; ++i) reference[i].w = start[i];
    for (int64_t t = 1; t <= 20; ++t) {
      const std::vector<float> g = Normal(kElements, 100 + static_cast<unsigned>(t));
      const StepScalars scalars = Step(g, /*scale=*/0.25, /*clip=*/5.5);
      double squares = 0;
      for (float x : g) squares += 0.0625 * x * x;
      EXPECT_NEAR(scalars.norm, std::sqrt(squares), 1e-12);
      EXPECT_EQ(scalars.learning_rate, LearningRate(options.schedule, t - 1));
      const double factor = 0.25 * std::min(1.0, 5.5 / (std::sqrt(squares) + 1e-6));
      for (size_t i = 0; i < kElements; ++i) {
        reference[i].Step(options, options.groups[i < 205 ? 0 : i < 400 ? 1 : 2], factor * g[i], scalars.learning_rate, t);
      }
    }
    const std::vector<float> weights = Weights();
    for (size_t i = 0; i < kElements; ++i) ASSERT_NEAR(weights[i], reference[i].w, 2e-6 * (1 + std::fabs(start[i]))) << i;
  }
};

TEST_P(OptimizerRulesTest, AdamWFollowsDoublePrecision) { ExpectTwentyStepsLikeTheReference(Golden(Kind::kAdamW)); }
TEST_P(OptimizerRulesTest, AdamFollowsDoublePrecision) { ExpectTwentyStepsLikeTheReference(Golden(Kind::kAdam)); }
TEST_P(OptimizerRulesTest, SgdFollowsDoublePrecision) { ExpectTwentyStepsLikeTheReference(Golden(Kind::kSgd)); }
TEST_P(OptimizerRulesTest, MomentumFollowsDoublePrecision) { ExpectTwentyStepsLikeTheReference(Golden(Kind::kSgd, 0.9)); }
TEST_P(OptimizerRulesTest, NesterovFollowsDoublePrecision) {
  ExpectTwentyStepsLikeTheReference(Golden(Kind::kSgd, 0.9, true));
}

// A table worked out by hand: lr 0.5, decay 0.5, gradient 1 and then 2.
TEST_P(OptimizerTest, SgdWithMomentumStartsFromTheGradient) {
  Make({.kind = Kind::kSgd, .momentum = 0.5, .schedule = {.learning_rate = 0.5}, .groups = {{.weight_decay = 0.5}}}, 1,
       {{0, 1, 0}});
  Write(weights_, {4});
  Step({1});  // g = 1 + 2, buffer 3
  EXPECT_THAT(Weights(), ElementsAre(2.5f));
  Step({2});  // g = 2 + 1.25, buffer 1.5 + 3.25
  EXPECT_THAT(State(0), ElementsAre(4.75f));
  EXPECT_THAT(Weights(), ElementsAre(0.125f));
}

TEST_P(OptimizerTest, NesterovLooksAhead) {
  Make({.kind = Kind::kSgd, .momentum = 0.5, .nesterov = true, .schedule = {.learning_rate = 0.5}}, 1, {{0, 1, 0}});
  Write(weights_, {4});
  Step({1});  // buffer 1, step 1 + 0.5
  EXPECT_THAT(Weights(), ElementsAre(3.25f));
  Step({2});  // buffer 2.5, step 2 + 1.25
  EXPECT_THAT(Weights(), ElementsAre(1.625f));
}

TEST_P(OptimizerTest, FirstAdamStepMovesByTheRateInTheGradientsDirection) {
  Make({.kind = Kind::kAdamW, .schedule = {.learning_rate = 0.25}}, 3, {{0, 3, 0}});
  Write(weights_, {1, 1, 1});
  Step({1e-3f, -1e3f, 0});
  const std::vector<float> w = Weights();
  EXPECT_NEAR(w[0], 0.75f, 1e-5);
  EXPECT_NEAR(w[1], 1.25f, 1e-6);
  EXPECT_EQ(w[2], 1);
}

TEST_P(OptimizerTest, DecoupledDecayActsWithoutAGradientAndOnItsGroupOnly) {
  Make({.schedule = {.learning_rate = 0.5}, .groups = {{.weight_decay = 0.5}, {}}}, 4, {{0, 2, 0}, {2, 2, 1}});
  Write(weights_, {4, -4, 4, -4});
  Step({0, 0, 0, 0});
  EXPECT_THAT(Weights(), ElementsAre(3, -3, 4, -4));
}

TEST_P(OptimizerTest, ATinyDecayIsNotRoundedAway) {
  Make({.schedule = {.learning_rate = 3e-4}, .groups = {{.weight_decay = 1e-3}}}, 1, {{0, 1, 0}});
  Write(weights_, {1});
  for (int i = 0; i < 1000; ++i) Step({0});
  EXPECT_NEAR(Weights()[0], 1 - 3e-4, 6e-5);
}

TEST_P(OptimizerTest, ASkippedStepChangesNothingAndTheNextIsAsIfItHadNotBeen) {
  const OptimizerOptions options = Golden(Kind::kAdamW);
  const std::vector<float> start = Normal(100, 1), g = Normal(100, 2);
  std::vector<float> bad = g;
  bad[77] = std::numeric_limits<float>::infinity();
  Make(options, 100, {{0, 100, 0}});
  Write(weights_, start);
  for (int i = 0; i < 3; ++i) {
    const StepScalars scalars = Step(bad, 1, 1);
    EXPECT_EQ(scalars.skip, 1);
    EXPECT_EQ(scalars.learning_rate, LearningRate(options.schedule, 0));
  }
  EXPECT_EQ(Weights(), start);
  EXPECT_EQ(State(0), std::vector<float>(100));
  EXPECT_EQ(Step(g, 1, 1).skipped_steps, 3);
  const std::vector<float> after_skips = Weights();

  Make(options, 100, {{0, 100, 0}});
  Write(weights_, start);
  Step(g, 1, 1);
  EXPECT_EQ(Weights(), after_skips);
}

TEST_P(OptimizerTest, AGivenRateOverridesTheSchedules) {
  Make({.kind = Kind::kSgd, .schedule = {.learning_rate = 0.5}}, 1, {{0, 1, 0}});
  Write(weights_, {1});
  Derive({1}, 1, 0, 0.25);
  EXPECT_TRUE(Apply(0, 1).ok());
  EXPECT_THAT(Weights(), ElementsAre(0.75f));
}

TEST_P(OptimizerTest, WhatNoRunCoversIsNeitherReadNorWritten) {
  Make(Golden(Kind::kAdamW), 200, {{64, 10, 0}, {128, 3, 1}});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> w(200, nan), g(200, nan);
  for (size_t i : {64u, 73u, 128u, 130u}) w[i] = 1;
  Write(weights_, w);
  Derive(std::vector<float>(200, 1.0f), 1, 0);
  Write(gradients_, g);
  EXPECT_TRUE(Apply(0, 200).ok());
  const std::vector<float> m = State(0);
  for (size_t i = 0; i < 200; ++i) {
    const bool covered = (i >= 64 && i < 74) || (i >= 128 && i < 131);
    EXPECT_EQ(std::isnan(m[i]), covered) << i;  // the NaN gradient arrives in the covered ones alone
  }
}

TEST_P(OptimizerTest, ShardsAndSubRangesGiveTheBitsOfTheWhole) {
  const Runs runs = {{0, 70, 0}, {128, 300, 1}, {448, 100, 2}, {548, 52, 0}};
  const std::vector<float> start = Normal(600, 1), g = Normal(600, 2);
  Make(Golden(Kind::kAdamW), 600, runs);
  Write(weights_, start);
  Step(g, 1, 1);
  const std::vector<float> whole = Weights(), moment = State(1);
  for (int64_t width : {1, 7, 64, 100, 599}) {
    Make(Golden(Kind::kAdamW), 600, runs);
    Write(weights_, start);
    Derive(g, 1, 1);
    for (int64_t first = 0; first < 600; first += width)
      EXPECT_TRUE(Apply(first, std::min<int64_t>(width, 600 - first)).ok());
    EXPECT_EQ(Weights(), whole) << width;
    EXPECT_EQ(State(1), moment) << width;
  }
}

// More runs than one operation takes, some of them frozen.
TEST_P(OptimizerTest, ManyRunsEachMoveByTheirGroup) {
  constexpr int64_t kRuns = 150;
  Runs runs;
  std::vector<float> expected;
  for (int64_t i = 0; i < kRuns; ++i) {
    runs.push_back({.first = 2 * i, .count = 1, .group = static_cast<int>(i % 2), .frozen = i % 7 == 3});
    expected.push_back(runs.back().frozen ? 0.0f : runs.back().group == 0 ? -0.5f : -1.0f);
    expected.push_back(0);
  }
  Make({.kind = Kind::kSgd, .schedule = {.learning_rate = 0.5}, .groups = {{}, {.learning_rate_scale = 2}}}, 2 * kRuns,
       runs);
  Step(std::vector<float>(2 * kRuns, 1));
  EXPECT_EQ(Weights(), expected);
}

TEST_P(OptimizerTest, StateIsFiledUnderMomentsByItsNames) {
  Make({.kind = Kind::kAdamW}, 1000, {});
  ASSERT_EQ(optimizer_->state().size(), 2u);
  EXPECT_EQ(optimizer_->state()[0].name, "exp_avg");
  EXPECT_EQ(optimizer_->state()[1].name, "exp_avg_sq");
  EXPECT_EQ(optimizer_->state()[0].array.elements(), 1000);
  EXPECT_EQ(device_->ledger().now(Use::kMoments), 8000);
  optimizer_.reset();
  Make({.kind = Kind::kSgd, .momentum = 0.9}, 1000, {});
  EXPECT_EQ(optimizer_->state()[0].name, "momentum_buffer");
  EXPECT_EQ(device_->ledger().now(Use::kMoments), 4000);
  optimizer_.reset();
  Make({.kind = Kind::kSgd}, 1000, {});
  EXPECT_TRUE(optimizer_->state().empty());
  EXPECT_EQ(device_->ledger().now(Use::kMoments), 0);
}

TEST_P(OptimizerTest, StateThatIsHandedOverInPartsGivesTheBitsOfItsOwn) {
  const Runs runs = {{0, 70, 0}, {128, 300, 1}, {448, 152, 2}};
  for (const Kind kind : {Kind::kAdamW, Kind::kSgd}) {
    OptimizerOptions options = Golden(kind);
    options.momentum = kind == Kind::kSgd ? 0.9 : 0;
    const size_t states = StateNames(options).size();
    Make(options, 600, runs);
    Write(weights_, Normal(600, 1));
    for (unsigned step = 0; step < 2; ++step) Step(Normal(600, step + 2), 1, 1);
    const std::vector<float> whole = Weights(), moment = State(states - 1);

    Make(options, 600, runs);
    optimizer_ = *Optimizer::CreateWithoutState(*device_, options, 600, runs);
    EXPECT_TRUE(optimizer_->state().empty());
    Write(weights_, Normal(600, 1));
    const Buffer state[] = {New(600), New(600)};
    for (unsigned step = 0; step < 2; ++step) {
      Derive(Normal(600, step + 2), 1, 1);
      for (int64_t first = 0; first < 600; first += 256) {
        const int64_t count = std::min<int64_t>(256, 600 - first);
        Update update{.first = first,
                      .weights = weights_.array(DType::kFloat32).Slice(first, count),
                      .gradients = gradients_.array(DType::kFloat32).Slice(first, count),
                      .scalars = scalars_.array(DType::kUint8)};
        for (size_t i = 0; i < states; ++i) update.state[i] = state[i].array(DType::kFloat32).Slice(first, count);
        ASSERT_TRUE(optimizer_->Apply(*stream_, update).ok());
      }
    }
    EXPECT_EQ(Weights(), whole);
    EXPECT_EQ(Read(state[states - 1].array(DType::kFloat32)), moment);
  }
}

TEST_P(OptimizerTest, AnEmptyShardSteps) {
  Make({}, 0, {});
  EXPECT_EQ(Step({}).norm, 0);
}

class OptimizerErrorsTest : public OptimizerTest {
 protected:
  std::string CreateError(int64_t elements, Runs runs, const OptimizerOptions& options = {}) {
    const auto optimizer = Optimizer::Create(*device_, options, elements, std::move(runs));
    EXPECT_EQ(optimizer.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(optimizer.status().message());
  }
  std::string ApplyError(const Update& update) {
    const absl::Status status = optimizer_->Apply(*stream_, update);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }
};

TEST_P(OptimizerErrorsTest, RunsOutsideTheirShardOrGroupsAreNamed) {
  EXPECT_THAT(CreateError(10, {{0, 5, 0}, {4, 2, 0}}), HasSubstr("run 1 {first 4, count 2, group 0} begins before 5"));
  EXPECT_THAT(CreateError(10, {{-1, 5, 0}}), HasSubstr("run 0 {first -1"));
  EXPECT_THAT(CreateError(10, {{0, -5, 0}}), HasSubstr("count -5"));
  EXPECT_THAT(CreateError(10, {{6, 5, 0}}), HasSubstr("ends beyond the shard's 10 elements"));
  EXPECT_THAT(CreateError(10, {{6, std::numeric_limits<int64_t>::max(), 0}}), HasSubstr("ends beyond"));
  EXPECT_THAT(CreateError(10, {{0, 5, 1}}), HasSubstr("group 1}: the optimizer has groups 0 to 0"));
  EXPECT_THAT(CreateError(10, {{0, 5, -1}}), HasSubstr("group -1}: the optimizer has groups 0 to 0"));
  EXPECT_THAT(CreateError(-1, {}), HasSubstr("-1 elements"));
  EXPECT_THAT(CreateError(10, {}, {.beta1 = 2}), HasSubstr("beta1 is 2"));
}

TEST_P(OptimizerErrorsTest, ArraysThatDoNotFitAreNamed) {
  Make({}, 10, {{0, 10, 0}});
  const Array w = weights_.array(DType::kFloat32), g = gradients_.array(DType::kFloat32), s = scalars_.array(DType::kUint8);
  EXPECT_THAT(ApplyError({.weights = w, .gradients = g.Slice(0, 9), .scalars = s}),
              HasSubstr("gradients is 9 elements of fp32, which does not fit 10 weights"));
  EXPECT_THAT(ApplyError({.weights = w, .gradients = g.As(DType::kInt32), .scalars = s}), HasSubstr("elements of int32"));
  EXPECT_THAT(ApplyError({.weights = w.As(DType::kInt32), .gradients = g, .scalars = s}), HasSubstr("weights is 10"));
  EXPECT_THAT(ApplyError({.weights = w, .gradients = g, .scalars = s, .write_back = g}), HasSubstr("write_back is 10"));
  EXPECT_THAT(ApplyError({.weights = w, .gradients = g, .scalars = s.Slice(0, 8)}), HasSubstr("scalars is 8 bytes"));
  EXPECT_THAT(ApplyError({.first = 1, .weights = w, .gradients = g, .scalars = s}),
              HasSubstr("elements 1 to 11 of a shard of 10"));
}

TEST_P(OptimizerErrorsTest, StateIsHandedOverWhereThereIsNoneAndOnlyThere) {
  Make({}, 10, {{0, 10, 0}});
  const Array w = weights_.array(DType::kFloat32), g = gradients_.array(DType::kFloat32), s = scalars_.array(DType::kUint8);
  EXPECT_THAT(ApplyError({.weights = w, .gradients = g, .scalars = s, .state = {w, w}}), HasSubstr("exp_avg is 10"));
  optimizer_ = *Optimizer::CreateWithoutState(*device_, {.kind = Kind::kSgd, .momentum = 0.5}, 10, {{0, 10, 0}});
  EXPECT_THAT(ApplyError({.weights = w, .gradients = g, .scalars = s}), HasSubstr("momentum_buffer is 0 elements"));
  EXPECT_THAT(ApplyError({.weights = w, .gradients = g, .scalars = s, .state = {w, w}}),
              HasSubstr("a state that this optimizer has not is 10"));
}

INSTANTIATE_TEST_SUITE_P(Devices, OptimizerRulesTest, testing::ValuesIn(device::TestDevices()), device::NameOfTestDevice);
INSTANTIATE_TEST_SUITE_P(Devices, OptimizerTest, testing::ValuesIn(device::TestDevices()), device::NameOfTestDevice);
INSTANTIATE_TEST_SUITE_P(Devices, OptimizerErrorsTest, testing::ValuesIn(device::TestDevices()), device::NameOfTestDevice);

}  // namespace
}  // namespace zeroshard::optim

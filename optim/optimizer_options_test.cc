#include "zeroshard/optim/optimizer_options.h"

#include <cmath>
#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zeroshard::optim {
namespace {

using testing::HasSubstr;

std::string ErrorOf(const OptimizerOptions& options) {
  const absl::Status status = Validate(options);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(OptimizerOptionsTest, DefaultsOfEveryKindAreValid) {
  for (Kind kind : {Kind::kAdamW, Kind::kAdam, Kind::kSgd}) EXPECT_TRUE(Validate(OptimizerOptions{.kind = kind}).ok());
  EXPECT_TRUE(Validate(OptimizerOptions{.kind = Kind::kSgd, .momentum = 0.9, .nesterov = true}).ok());
}

TEST(OptimizerOptionsTest, BadAdamNumbersAreNamedWithTheirValue) {
  EXPECT_THAT(ErrorOf({.beta1 = 1}), HasSubstr("beta1 is 1; it must be at least 0 and below 1"));
  EXPECT_THAT(ErrorOf({.beta2 = -0.1}), HasSubstr("beta2 is -0.1"));
  EXPECT_THAT(ErrorOf({.beta2 = std::nan("")}), HasSubstr("beta2 is nan"));
  EXPECT_THAT(ErrorOf({.eps = 0}), HasSubstr("eps is 0; it must be at least"));
  EXPECT_THAT(ErrorOf({.eps = 1e-50}), HasSubstr("eps is 1e-50"));
  EXPECT_THAT(ErrorOf({.kind = static_cast<Kind>(7)}), HasSubstr("kind is 7"));
}

TEST(OptimizerOptionsTest, MomentumWithAdamIsRefusedWithTheRemedy) {
  EXPECT_THAT(ErrorOf({.kind = Kind::kAdamW, .momentum = 0.9}), HasSubstr("momentum is 0.9, but the optimizer is adamw"));
  EXPECT_THAT(ErrorOf({.kind = Kind::kAdam, .nesterov = true}), HasSubstr("momentum and nesterov are SGD's"));
}

TEST(OptimizerOptionsTest, BadSgdNumbersAreNamed) {
  EXPECT_THAT(ErrorOf({.kind = Kind::kSgd, .momentum = 1}), HasSubstr("momentum is 1"));
  EXPECT_THAT(ErrorOf({.kind = Kind::kSgd, .momentum = -0.5}), HasSubstr("momentum is -0.5"));
  EXPECT_THAT(ErrorOf({.kind = Kind::kSgd, .nesterov = true}), HasSubstr("Nesterov needs a momentum above 0"));
  // Adam's numbers do not matter to SGD.
  EXPECT_TRUE(Validate(OptimizerOptions{.kind = Kind::kSgd, .beta1 = 3, .eps = 0}).ok());
}

TEST(OptimizerOptionsTest, BadGroupsAreNamedByTheirIndex) {
  EXPECT_THAT(ErrorOf({.groups = {}}), HasSubstr("groups is empty"));
  EXPECT_THAT(ErrorOf({.groups = {{}, {.weight_decay = -1}}}), HasSubstr("groups[1].weight_decay is -1"));
  EXPECT_THAT(ErrorOf({.groups = {{.learning_rate_scale = std::numeric_limits<double>::infinity()}}}),
              HasSubstr("groups[0].learning_rate_scale is inf"));
}

TEST(OptimizerOptionsTest, ABadScheduleIsABadOptimizer) {
  EXPECT_THAT(ErrorOf({.schedule = {.learning_rate = -1}}), HasSubstr("schedule.learning_rate is -1"));
}

TEST(OptimizerOptionsTest, LossScalesThatCannotWorkAreRefused) {
  using device::LossScaleKind;
  EXPECT_THAT(ErrorOf({.loss_scale = {.kind = LossScaleKind::kStatic, .value = 1e-7}}), HasSubstr("loss_scale is 1e-07"));
  EXPECT_THAT(ErrorOf({.loss_scale = {.kind = LossScaleKind::kStatic, .value = std::nan("")}}),
              HasSubstr("loss_scale is nan"));
  EXPECT_THAT(ErrorOf({.loss_scale = {.kind = LossScaleKind::kDynamic, .initial_power = 101}}),
              HasSubstr("initial_scale_power is 101"));
  EXPECT_THAT(ErrorOf({.loss_scale = {.kind = LossScaleKind::kDynamic, .window = 0}}), HasSubstr("loss_scale_window is 0"));
  EXPECT_THAT(ErrorOf({.loss_scale = {.kind = LossScaleKind::kDynamic, .hysteresis = 0}}), HasSubstr("hysteresis 0"));
  EXPECT_THAT(ErrorOf({.loss_scale = {.kind = LossScaleKind::kDynamic, .initial_power = 1, .minimum = 4}}),
              HasSubstr("min_loss_scale is 4"));
}

TEST(OptimizerOptionsTest, StateIsEightFourOrNoBytesAnElement) {
  EXPECT_EQ(StateBytesPerElement({.kind = Kind::kAdamW}), 8);
  EXPECT_EQ(StateBytesPerElement({.kind = Kind::kAdam}), 8);
  EXPECT_EQ(StateBytesPerElement({.kind = Kind::kSgd, .momentum = 0.9}), 4);
  EXPECT_EQ(StateBytesPerElement({.kind = Kind::kSgd}), 0);
}

TEST(OptimizerOptionsTest, NamesComeBack) {
  for (Kind kind : {Kind::kAdamW, Kind::kAdam, Kind::kSgd}) EXPECT_EQ(ParseKind(Name(kind)), kind);
  EXPECT_FALSE(ParseKind("adamax").has_value());
}

TEST(OptimizerOptionsTest, StepRuleCarriesWhatTheScalarsNeed) {
  const OptimizerOptions options{.kind = Kind::kAdam, .beta1 = 0.8, .beta2 = 0.7, .schedule = {.learning_rate = 0.3}};
  const device::StepRule rule = MakeStepRule(options, /*gradient_scale=*/0.25, /*clip=*/2);
  EXPECT_EQ(rule.schedule.learning_rate, 0.3);
  EXPECT_EQ(rule.gradient_scale, 0.25);
  EXPECT_EQ(rule.clip, 2);
  EXPECT_EQ(rule.beta1, 0.8);
  EXPECT_EQ(rule.beta2, 0.7);
}

}  // namespace
}  // namespace zeroshard::optim

#include "zeroshard/device/step_scalars.h"

#include <cmath>
#include <optional>

#include "gtest/gtest.h"

namespace zeroshard::device {
namespace {

StepRule Rule() {
  return {.schedule = {.kind = ScheduleKind::kLinear, .learning_rate = 1, .min_learning_rate = 0, .total_steps = 10},
          .gradient_scale = 0.5,
          .clip = 1,
          .beta1 = 0.9,
          .beta2 = 0.99};
}

TEST(StepScalarsTest, NormIsOfTheScaledGradientAndTheFactorClipsIt) {
  const StepScalars s = NextScalars({}, /*sum_of_squares=*/400, 0, Rule(), std::nullopt);
  EXPECT_EQ(s.norm, 10);
  EXPECT_DOUBLE_EQ(s.clip_factor, 1 / (10 + 1e-6));
  EXPECT_DOUBLE_EQ(s.gradient_multiplier, 0.5 / (10 + 1e-6));
  EXPECT_EQ(s.skip, 0);
  EXPECT_EQ(s.applied_steps, 1);
}

TEST(StepScalarsTest, ASmallNormOrNoClipLeavesTheGradientAlone) {
  EXPECT_EQ(NextScalars({}, 0.01, 0, Rule(), std::nullopt).clip_factor, 1);
  EXPECT_EQ(NextScalars({}, 0, 0, Rule(), std::nullopt).clip_factor, 1);
  StepRule rule = Rule();
  rule.clip = 0;
  EXPECT_EQ(NextScalars({}, 400, 0, rule, std::nullopt).gradient_multiplier, 0.5);
}

TEST(StepScalarsTest, BiasCorrectionsFollowTheNumberOfAppliedSteps) {
  StepScalars s = {};
  for (int i = 0; i < 3; ++i) s = NextScalars(s, 1, 0, Rule(), std::nullopt);
  EXPECT_NEAR(s.bias_correction1, 1 - 0.9 * 0.9 * 0.9, 1e-15);
  EXPECT_NEAR(s.bias_correction2, 1 - 0.99 * 0.99 * 0.99, 1e-15);
}

TEST(StepScalarsTest, AOneCycleScheduleMovesAdamsBetas) {
  StepRule rule = Rule();
  StepScalars s = NextScalars({}, 1, 0, rule, std::nullopt);
  EXPECT_EQ(s.beta1, 0.9);
  EXPECT_EQ(s.beta2, 0.99);
  rule.schedule = {.kind = ScheduleKind::kOneCycle, .cycle = {.first_steps = 2, .second_steps = 2, .cycles_beta1 = true}};
  s = NextScalars(s, 1, 0, rule, std::nullopt);
  EXPECT_DOUBLE_EQ(s.beta1, 0.85);
  EXPECT_DOUBLE_EQ(s.bias_correction1, 1 - 0.85 * 0.85);
}

TEST(StepScalarsTest, ThreeOverflowsAtTheStartDoNotMoveTheSchedule) {
  StepScalars s = {};
  for (int i = 0; i < 3; ++i) {
    s = NextScalars(s, 1, /*non_finite_blocks=*/2, Rule(), std::nullopt);
    EXPECT_EQ(s.skip, 1);
    EXPECT_TRUE(std::isnan(s.norm));
    EXPECT_EQ(s.learning_rate, 1);
    EXPECT_EQ(s.non_finite_blocks, 2);
  }
  EXPECT_EQ(s.applied_steps, 0);
  EXPECT_EQ(s.skipped_steps, 3);
  EXPECT_EQ(s.skipped_in_a_row, 3);
  s = NextScalars(s, 1, 0, Rule(), std::nullopt);
  EXPECT_EQ(s.skip, 0);
  EXPECT_EQ(s.learning_rate, 1);
  EXPECT_EQ(s.skipped_in_a_row, 0);
  EXPECT_EQ(s.skipped_steps, 3);
  EXPECT_DOUBLE_EQ(s.bias_correction1, 0.1);
  s = NextScalars(s, 1, 0, Rule(), std::nullopt);
  EXPECT_DOUBLE_EQ(s.learning_rate, 0.9);
}

TEST(StepScalarsTest, TheLossScaleIsTakenOutOfNormAndMultiplier) {
  StepRule rule = Rule();
  rule.loss_scale = {.kind = LossScaleKind::kDynamic, .initial_power = 3, .hysteresis = 1};
  StepScalars s = NextScalars({}, 400 * 64, 0, rule, std::nullopt);
  EXPECT_EQ(s.loss_scale, 8);
  EXPECT_EQ(s.norm, 10);
  EXPECT_DOUBLE_EQ(s.gradient_multiplier, 0.5 / 8 / (10 + 1e-6));
  s = NextScalars(s, 1, /*non_finite_blocks=*/1, rule, std::nullopt);
  EXPECT_EQ(s.loss_scale, 8);
  EXPECT_EQ(s.scaling.scale, 4);
  EXPECT_EQ(NextScalars(s, 1, 0, rule, std::nullopt).loss_scale, 4);
}

TEST(StepScalarsTest, AGivenRateOverridesTheSchedules) {
  EXPECT_EQ(NextScalars({}, 1, 0, Rule(), 0.125).learning_rate, 0.125);
  EXPECT_EQ(NextScalars({}, 1, 0, Rule(), 0.0).learning_rate, 0.0);
}

}  // namespace
}  // namespace zeroshard::device

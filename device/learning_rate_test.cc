#include "zeroshard/device/learning_rate.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace zeroshard::device {
namespace {

LearningRateSchedule Warm(ScheduleKind kind) {
  return {.kind = kind, .learning_rate = 3e-3, .min_learning_rate = 3e-4, .warmup_steps = 5, .total_steps = 20};
}

TEST(LearningRateTest, WarmUpRisesLinearlyToThePeakInEveryKind) {
  for (ScheduleKind kind : {ScheduleKind::kConstant, ScheduleKind::kLinear, ScheduleKind::kCosine}) {
    for (int64_t s = 0; s < 5; ++s) EXPECT_DOUBLE_EQ(LearningRateAt(Warm(kind), s), 6e-4 * static_cast<double>(s + 1));
    EXPECT_EQ(LearningRateAt(Warm(kind), 5), 3e-3);
  }
}

TEST(LearningRateTest, ConstantStays) {
  EXPECT_EQ(LearningRateAt(Warm(ScheduleKind::kConstant), 19), 3e-3);
  EXPECT_EQ(LearningRateAt(Warm(ScheduleKind::kConstant), int64_t{1} << 40), 3e-3);
}

TEST(LearningRateTest, LinearFallsEvenlyAndStaysAtTheMinimum) {
  const LearningRateSchedule s = Warm(ScheduleKind::kLinear);
  EXPECT_DOUBLE_EQ(LearningRateAt(s, 8), 3e-4 + 0.8 * 2.7e-3);
  EXPECT_DOUBLE_EQ(LearningRateAt(s, 20), 3e-4);
  EXPECT_DOUBLE_EQ(LearningRateAt(s, 21), 3e-4);
  EXPECT_DOUBLE_EQ(LearningRateAt(s, int64_t{1} << 40), 3e-4);
}

// 3e-3 (0.1 + 0.45 (1 + cos(pi r))), r = (step - 5) / 15.
TEST(LearningRateTest, CosineToATenthFollowsItsFormula) {
  const LearningRateSchedule s = Warm(ScheduleKind::kCosine);
  EXPECT_DOUBLE_EQ(LearningRateAt(s, 6), 0.0029704992609906377);
  EXPECT_DOUBLE_EQ(LearningRateAt(s, 10), 0.002325);
  EXPECT_DOUBLE_EQ(LearningRateAt(s, 15), 0.000975);
  EXPECT_DOUBLE_EQ(LearningRateAt(s, 19), 0.00032950073900936237);
  EXPECT_DOUBLE_EQ(LearningRateAt(s, 20), 3e-4);
  EXPECT_DOUBLE_EQ(LearningRateAt(s, 1000), 3e-4);
}

TEST(LearningRateTest, TotalEqualToWarmUpEndsAtThePeakThenStaysAtTheMinimum) {
  LearningRateSchedule s = Warm(ScheduleKind::kCosine);
  s.total_steps = 5;
  EXPECT_EQ(LearningRateAt(s, 5), 3e-3);
  EXPECT_EQ(LearningRateAt(s, 6), 3e-4);
}

TEST(LearningRateTest, NoWarmUpStartsAtThePeak) {
  LearningRateSchedule s = Warm(ScheduleKind::kLinear);
  s.warmup_steps = 0;
  EXPECT_EQ(LearningRateAt(s, 0), 3e-3);
}

// Of DeepSpeed's schedules, by hand: step 0 has the first rate, step s what the formulas give for s - 1.
LearningRateSchedule DeepSpeed(ScheduleKind kind, WarmupShape shape) {
  return {.kind = kind,
          .learning_rate = 1,
          .min_learning_rate = 0.1,
          .warmup_steps = 4,
          .total_steps = 12,
          .warmup_from = 0.2,
          .warmup_shape = shape};
}

void ExpectRates(const LearningRateSchedule& schedule, const std::vector<double>& rates) {
  for (size_t s = 0; s < rates.size(); ++s) {
    EXPECT_NEAR(LearningRateAt(schedule, static_cast<int64_t>(s)), rates[s], 1e-12) << "step " << s;
  }
}

TEST(DeepSpeedScheduleTest, WarmupRisesLinearlyOrWithTheLogarithmAndStays) {
  ExpectRates(DeepSpeed(ScheduleKind::kWarmup, WarmupShape::kLinear), {0.2, 0.2, 0.4, 0.6, 0.8, 1, 1, 1});
  // 0.2 + 0.8 ln(i + 1) / ln 4: ln 2 / ln 4 = 0.5, ln 3 / ln 4 = 0.7924812503605781.
  ExpectRates(DeepSpeed(ScheduleKind::kWarmup, WarmupShape::kLogarithm), {0.2, 0.2, 0.6, 0.8339850002884625, 1, 1, 1, 1});
}

TEST(DeepSpeedScheduleTest, WarmupOfOneStepTakesTwo) {
  LearningRateSchedule s = DeepSpeed(ScheduleKind::kWarmup, WarmupShape::kLinear);
  s.warmup_steps = 1;
  ExpectRates(s, {0.2, 0.2, 0.6, 1, 1});
}

TEST(DeepSpeedScheduleTest, WarmupDecayFallsEvenlyToWhereTheWarmupBegan) {
  // g = (12 - i) / 8 from i = 4 on.
  ExpectRates(DeepSpeed(ScheduleKind::kWarmupDecay, WarmupShape::kLinear),
              {0.2, 0.2, 0.4, 0.6, 0.8, 1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.2, 0.2});
}

TEST(DeepSpeedScheduleTest, WarmupCosineBeginsAtZeroAndEndsAtItsMinimum) {
  // 0.1 + 0.9 (1 + cos(pi p)) / 2, p = (i - 3) / 8 from i = 4 on: cos(pi / 8) = 0.9238795325112867.
  ExpectRates(DeepSpeed(ScheduleKind::kWarmupCosine, WarmupShape::kLinear),
              {0, 0.2, 0.4, 0.6, 0.8, 0.965745789630079, 0.8681980515339464, 0.7222075445642904, 0.55, 0.3777924554357096,
               0.2318019484660536, 0.13425421036992098, 0.1, 0.1, 0.1});
}

TEST(DeepSpeedScheduleTest, OneCycleRisesFallsAndDecays) {
  const LearningRateSchedule s{.kind = ScheduleKind::kOneCycle,
                               .learning_rate = 1,
                               .min_learning_rate = 0.2,
                               .cycle = {.first_steps = 4, .second_steps = 2, .decay_steps = 2, .decay_rate = 0.5}};
  // After the cycle 0.2 / (1 + 0.5 k / 2).
  ExpectRates(s, {0.2, 0.4, 0.6, 0.8, 1, 0.6, 0.2, 0.16, 0.13333333333333333, 0.11428571428571429, 0.1});
}

TEST(DeepSpeedScheduleTest, OneCycleGoesInStairsWhereAsked) {
  const LearningRateSchedule s{.kind = ScheduleKind::kOneCycle,
                               .learning_rate = 1,
                               .min_learning_rate = 0,
                               .cycle = {.first_steps = 4, .second_steps = 4, .first_stairs = 2, .second_stairs = 1}};
  ExpectRates(s, {0, 0, 0.5, 0.5, 1, 0, 0, 0, 0, 0, 0});
}

TEST(DeepSpeedScheduleTest, OneCycleMovesBeta1TheOtherWay) {
  const OneCycle cycle{.first_steps = 2, .second_steps = 2, .cycles_beta1 = true, .min_beta1 = 0.8, .max_beta1 = 0.9};
  const std::vector<double> betas = {0.8, 0.85, 0.8, 0.85, 0.9, 0.9};
  for (size_t s = 0; s < betas.size(); ++s) EXPECT_DOUBLE_EQ(OneCycleBeta1(cycle, static_cast<int64_t>(s)), betas[s]);
}

}  // namespace
}  // namespace zeroshard::device

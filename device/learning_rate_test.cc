#include "zeroshard/device/learning_rate.h"

#include <cstdint>

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

}  // namespace
}  // namespace zeroshard::device

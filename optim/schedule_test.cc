#include "zeroshard/optim/schedule.h"

#include <cmath>
#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zeroshard::optim {
namespace {

using testing::HasSubstr;

std::string ErrorOf(const Schedule& schedule) {
  const absl::Status status = Validate(schedule);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(ScheduleTest, DefaultsAreValid) { EXPECT_TRUE(Validate(Schedule{}).ok()); }

TEST(ScheduleTest, TheHostsRateIsTheDevices) {
  const Schedule schedule{.kind = ScheduleKind::kCosine, .learning_rate = 0.7, .warmup_steps = 3, .total_steps = 17};
  for (int64_t s = 0; s < 25; ++s) EXPECT_EQ(LearningRate(schedule, s), device::LearningRateAt(schedule, s));
}

TEST(ScheduleTest, BadFieldsAreNamedWithTheirValue) {
  EXPECT_THAT(ErrorOf({.learning_rate = -0.5}), HasSubstr("schedule.learning_rate is -0.5"));
  EXPECT_THAT(ErrorOf({.learning_rate = std::numeric_limits<double>::quiet_NaN()}), HasSubstr("learning_rate is nan"));
  EXPECT_THAT(ErrorOf({.min_learning_rate = -1}), HasSubstr("schedule.min_learning_rate is -1"));
  EXPECT_THAT(ErrorOf({.warmup_steps = -2}), HasSubstr("schedule.warmup_steps is -2"));
  EXPECT_THAT(ErrorOf({.total_steps = -3}), HasSubstr("schedule.total_steps is -3"));
  EXPECT_THAT(ErrorOf({.kind = static_cast<ScheduleKind>(9)}), HasSubstr("schedule.kind is 9"));
}

TEST(ScheduleTest, FieldsThatContradictEachOtherAreNamedBoth) {
  EXPECT_THAT(ErrorOf({.kind = ScheduleKind::kLinear, .learning_rate = 0.1, .min_learning_rate = 0.2, .total_steps = 5}),
              HasSubstr("min_learning_rate is 0.2, above schedule.learning_rate 0.1; a linear schedule falls"));
  EXPECT_THAT(ErrorOf({.kind = ScheduleKind::kCosine, .warmup_steps = 6, .total_steps = 5}),
              HasSubstr("total_steps is 5, below schedule.warmup_steps 6"));
  EXPECT_TRUE(Validate(Schedule{.kind = ScheduleKind::kConstant, .warmup_steps = 6, .total_steps = 5}).ok());
}

TEST(ScheduleTest, DeepSpeedsFieldsAreCheckedWhereTheyAreUsed) {
  EXPECT_THAT(ErrorOf({.kind = ScheduleKind::kWarmup, .learning_rate = 0.1, .warmup_from = 0.2}),
              HasSubstr("warmup_from is 0.2, above schedule.learning_rate 0.1"));
  EXPECT_THAT(ErrorOf({.kind = ScheduleKind::kOneCycle, .cycle = {.first_steps = 0}}), HasSubstr("first_steps is 0"));
  EXPECT_THAT(ErrorOf({.kind = ScheduleKind::kOneCycle, .cycle = {.max_beta1 = 1}}), HasSubstr("0.8 and 1"));
  EXPECT_TRUE(Validate(Schedule{.kind = ScheduleKind::kCosine, .total_steps = 1, .cycle = {.first_steps = 0}}).ok());
}

TEST(ScheduleTest, NamesComeBack) {
  for (int kind = 0; kind <= static_cast<int>(ScheduleKind::kOneCycle); ++kind) {
    EXPECT_EQ(ParseScheduleKind(Name(static_cast<ScheduleKind>(kind))), static_cast<ScheduleKind>(kind));
  }
  EXPECT_FALSE(ParseScheduleKind("cosin").has_value());
}

}  // namespace
}  // namespace zeroshard::optim

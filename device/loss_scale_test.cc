#include "zeroshard/device/loss_scale.h"

#include <vector>

#include "gtest/gtest.h"

namespace zeroshard::device {
namespace {

// One step: whether it overflows, and the scale, borne overflows and applied steps that it leaves.
struct Row {
  bool overflow;
  float scale;
  int hysteresis_used;
  int64_t steps;
};

void ExpectTable(const LossScale& rule, const std::vector<Row>& table) {
  LossScaleState state{.scale = InitialLossScale(rule), .hysteresis_used = 0, .steps_since_overflow = 0};
  for (size_t i = 0; i < table.size(); ++i) {
    state = NextLossScale(rule, state, table[i].overflow);
    EXPECT_EQ(state.scale, table[i].scale) << "step " << i;
    EXPECT_EQ(state.hysteresis_used, table[i].hysteresis_used) << "step " << i;
    EXPECT_EQ(state.steps_since_overflow, table[i].steps) << "step " << i;
  }
}

constexpr bool kOverflow = true;
constexpr bool kApplied = false;

TEST(LossScaleTest, FollowsTheTableOfDeepSpeedsRules) {
  ExpectTable({.kind = LossScaleKind::kDynamic, .initial_power = 4, .window = 3, .hysteresis = 2, .minimum = 4},
              {
                  {kOverflow, 16, 1, 0},  // the first one is borne
                  {kOverflow, 8, 1, 0},
                  {kApplied, 8, 1, 1},
                  {kApplied, 8, 1, 2},
                  {kOverflow, 4, 1, 0},  // hysteresis is not full before a window is over
                  {kOverflow, 4, 1, 0},  // never below the minimum
                  {kApplied, 4, 1, 1},
                  {kApplied, 4, 1, 2},
                  {kApplied, 8, 0, 3},  // a window: twice the scale, full hysteresis
                  {kApplied, 8, 0, 4},
                  {kApplied, 8, 0, 5},
                  {kApplied, 16, 0, 6},
                  {kOverflow, 16, 1, 0},
                  {kApplied, 16, 1, 1},
                  {kOverflow, 8, 1, 0},
              });
}

TEST(LossScaleTest, ConsecutiveHysteresisIsFullAfterEachAppliedStep) {
  ExpectTable(
      {.kind = LossScaleKind::kDynamic, .initial_power = 4, .window = 100, .hysteresis = 3, .consecutive_hysteresis = true},
      {
          {kOverflow, 16, 1, 0},
          {kOverflow, 16, 2, 0},
          {kOverflow, 8, 2, 0},
          {kApplied, 8, 0, 1},
          {kOverflow, 8, 1, 0},
          {kApplied, 8, 0, 1},
          {kOverflow, 8, 1, 0},
          {kOverflow, 8, 2, 0},
          {kOverflow, 4, 2, 0},
      });
}

TEST(LossScaleTest, WithoutHysteresisEachOverflowHalves) {
  ExpectTable({.kind = LossScaleKind::kDynamic, .initial_power = 2, .window = 1, .hysteresis = 1},
              {{kOverflow, 2, 0, 0}, {kOverflow, 1, 0, 0}, {kOverflow, 1, 0, 0}, {kApplied, 2, 0, 1}, {kApplied, 4, 0, 2}});
}

TEST(LossScaleTest, AStaticScaleAndNoneStay) {
  ExpectTable({.kind = LossScaleKind::kStatic, .value = 1024}, {{kOverflow, 1024, 0, 0}, {kApplied, 1024, 0, 0}});
  ExpectTable({}, {{kOverflow, 1, 0, 0}, {kApplied, 1, 0, 0}});
}

TEST(LossScaleTest, BeginsAtTwoToTheSixteenthAndDoublesAfterAThousandSteps) {
  const LossScale rule{.kind = LossScaleKind::kDynamic};
  LossScaleState state{.scale = InitialLossScale(rule), .hysteresis_used = 0, .steps_since_overflow = 0};
  for (int i = 0; i < 999; ++i) state = NextLossScale(rule, state, kApplied);
  EXPECT_EQ(state.scale, 65536);
  state = NextLossScale(rule, state, kApplied);
  EXPECT_EQ(state.scale, 131072);
}

TEST(LossScaleTest, NeverGrowsBeyondTheLargest) {
  const LossScale rule{.kind = LossScaleKind::kDynamic, .window = 1};
  LossScaleState state{.scale = kLargestLossScale, .hysteresis_used = 0, .steps_since_overflow = 0};
  EXPECT_EQ(NextLossScale(rule, state, kApplied).scale, kLargestLossScale);
}

}  // namespace
}  // namespace zeroshard::device

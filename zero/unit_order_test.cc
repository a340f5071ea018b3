#include "zeroshard/zero/unit_order.h"

#include <gtest/gtest.h>

#include <vector>

namespace zeroshard::zero {
namespace {

constexpr UnitPass kEnd = {};

UnitPass Forward(int unit) { return {unit, Pass::kForward}; }
UnitPass Recompute(int unit) { return {unit, Pass::kRecompute}; }
UnitPass Backward(int unit) { return {unit, Pass::kBackward}; }

UnitOrder Plain(int units) { return UnitOrder(std::vector<bool>(units)); }

void RunPass(UnitOrder& order, const std::vector<UnitPass>& passes) {
  for (const UnitPass at : passes) order.Visit(at);
}

TEST(UnitOrder, GuessesTheOrderOfTheListAtFirst) {
  const UnitOrder order = Plain(3);
  EXPECT_EQ(order.Next(Forward(0)), Forward(1));
  EXPECT_EQ(order.Next(Forward(2)), kEnd);
  EXPECT_EQ(order.Next(Backward(2)), Backward(1));
  EXPECT_EQ(order.Next(Backward(0)), kEnd);
  EXPECT_TRUE(order.EndsForward(2));
}

TEST(UnitOrder, GuessesWhatTheLastPassDid) {
  UnitOrder order = Plain(3);
  RunPass(order, {Forward(1), Forward(0), Forward(2)});
  RunPass(order, {Backward(2), Backward(0), Backward(1)});
  EXPECT_EQ(order.Next(Forward(1)), Forward(0));
  EXPECT_EQ(order.Next(Forward(0)), Forward(2));
  EXPECT_EQ(order.Next(Backward(0)), Backward(1));
  RunPass(order, {Forward(0), Forward(1)});
  order.EndPass();
  EXPECT_TRUE(order.EndsForward(1));
  EXPECT_EQ(order.Next(Forward(1)), kEnd);
}

TEST(UnitOrder, AForwardPassWithoutBackwardEndsWhereItsUnitsComeAgain) {
  UnitOrder order = Plain(3);
  RunPass(order, {Forward(0), Forward(1), Forward(2)});
  RunPass(order, {Forward(0), Forward(1), Forward(2)});
  EXPECT_EQ(order.Next(Forward(2)), kEnd);
  EXPECT_TRUE(order.EndsForward(2));
}

TEST(UnitOrder, RecomputationIsAPartOfBackward) {
  UnitOrder order({false, true, true, false, false});
  for (int repeat = 0; repeat < 2; ++repeat) {
    EXPECT_EQ(order.Next(Forward(1)), Forward(2));
    EXPECT_EQ(order.Next(Backward(4)), Recompute(1));
    EXPECT_EQ(order.Next(Recompute(1)), Recompute(2));
    EXPECT_EQ(order.Next(Recompute(2)), Backward(3));
    EXPECT_EQ(order.Next(Backward(3)), Backward(2));
    EXPECT_EQ(order.Next(Backward(2)), Backward(1));
    EXPECT_EQ(order.Next(Backward(0)), kEnd);
    EXPECT_TRUE(order.EndsForward(4));
    RunPass(order, model::TrainingPasses({false, true, true, false, false}));
  }
}

}  // namespace
}  // namespace zeroshard::zero

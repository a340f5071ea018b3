#include "zeroshard/zero/unit_order.h"

#include <gtest/gtest.h>

#include <vector>

namespace zeroshard::zero {
namespace {

using Passes = std::vector<UnitPass>;

Passes All(Pass pass, const std::vector<int>& units) {
  Passes passes;
  for (int u : units) passes.push_back({u, pass});
  return passes;
}

Passes Forward(const std::vector<int>& units) { return All(Pass::kForward, units); }
Passes Backward(const std::vector<int>& units) { return All(Pass::kBackward, units); }

UnitOrder Plain(const std::vector<int>& uses) { return {uses, std::vector<bool>(uses.size())}; }

void RunPass(UnitOrder& order, const Passes& passes) {
  for (const UnitPass at : passes) order.Visit(at);
}

Passes AheadOf(UnitOrder& order, UnitPass at) {
  order.Visit(at);
  return {order.Ahead().begin(), order.Ahead().end()};
}
Passes AheadInForward(UnitOrder& order, int unit) { return AheadOf(order, {unit, Pass::kForward}); }
Passes AheadInBackward(UnitOrder& order, int unit) { return AheadOf(order, {unit, Pass::kBackward}); }

Passes ExpectedBackward(const UnitOrder& order) { return {order.Backward().begin(), order.Backward().end()}; }

TEST(UnitOrder, GuessesTheOrderOfTheListAtFirst) {
  UnitOrder order = Plain({1, 1, 1});
  EXPECT_TRUE(order.Ahead().empty());
  EXPECT_EQ(AheadInForward(order, 0), Forward({1, 2}));
  EXPECT_EQ(AheadInForward(order, 2), Passes());
  EXPECT_EQ(ExpectedBackward(order), Backward({2, 1, 0}));
  EXPECT_EQ(AheadInBackward(order, 2), Backward({1, 0}));
}

TEST(UnitOrder, GuessesWhatTheLastPassDid) {
  UnitOrder order = Plain({1, 1, 1});
  RunPass(order, Forward({1, 0, 2}));
  RunPass(order, Backward({2, 0, 1}));
  EXPECT_EQ(AheadInForward(order, 1), Forward({0, 2}));
  EXPECT_EQ(AheadInForward(order, 0), Forward({2}));
  RunPass(order, Forward({2}));
  EXPECT_EQ(AheadInBackward(order, 2), Backward({0, 1}));
  RunPass(order, Forward({0, 1}));
  order.EndPass();
  EXPECT_EQ(AheadInForward(order, 0), Forward({1}));
}

TEST(UnitOrder, AForwardPassWithoutBackwardEndsWhereItsUnitsComeAgain) {
  UnitOrder order = Plain({1, 1, 1});
  RunPass(order, Forward({0, 1, 2}));
  RunPass(order, Forward({0, 1, 2}));
  EXPECT_TRUE(order.Ahead().empty());
  EXPECT_EQ(AheadInForward(order, 0), Forward({1, 2}));
}

TEST(UnitOrder, AUnitMayComeAsOftenAsItIsUsed) {
  UnitOrder order = Plain({1, 2, 1});
  RunPass(order, Forward({0, 1, 2, 1}));
  RunPass(order, Backward({1, 2, 1, 0}));
  EXPECT_EQ(AheadInForward(order, 0), Forward({1, 2, 1}));
  EXPECT_EQ(AheadInForward(order, 1), Forward({2, 1}));
  EXPECT_EQ(AheadInForward(order, 2), Forward({1}));
  EXPECT_EQ(AheadInForward(order, 1), Passes());
  EXPECT_EQ(AheadInBackward(order, 1), Backward({2, 1, 0}));
}

TEST(UnitOrder, AUnitOutOfTurnIsFoundAgain) {
  UnitOrder order = Plain({1, 1, 1, 1});
  EXPECT_EQ(AheadInForward(order, 2), Forward({3}));
  EXPECT_EQ(AheadInForward(order, 0), Forward({1, 2, 3}));
}

TEST(UnitOrder, APassThatWasBrokenOffIsNoGuess) {
  UnitOrder order = Plain({1, 1, 1});
  RunPass(order, Forward({2, 0}));
  order.ForgetPass();
  EXPECT_TRUE(order.Ahead().empty());
  EXPECT_EQ(AheadInForward(order, 0), Forward({1, 2}));
}

TEST(UnitOrder, RecomputationIsAPartOfBackward) {
  UnitOrder order({1, 1, 1, 1, 1}, {false, true, true, false, false});
  const Passes backward = {{4, Pass::kBackward}, {1, Pass::kRecompute}, {2, Pass::kRecompute}, {3, Pass::kBackward},
                           {2, Pass::kBackward}, {1, Pass::kBackward},  {0, Pass::kBackward}};
  for (int repeat = 0; repeat < 2; ++repeat) {
    EXPECT_EQ(ExpectedBackward(order), backward);
    EXPECT_EQ(AheadInForward(order, 1), Forward({2, 3, 4}));
    order.ForgetPass();
    RunPass(order, model::TrainingPasses({false, true, true, false, false}));
    order.EndPass();
  }
}

}  // namespace
}  // namespace zeroshard::zero

#include "zeroshard/zero/unit_order.h"

#include <gtest/gtest.h>

#include <vector>

namespace zeroshard::zero {
namespace {

void RunPass(UnitOrder& order, const std::vector<int>& units, Pass pass) {
  for (int u : units) order.Visit(u, pass);
}

TEST(UnitOrder, GuessesTheOrderOfTheListAtFirst) {
  UnitOrder order(3);
  EXPECT_EQ(order.Next(0, Pass::kForward), 1);
  EXPECT_EQ(order.Next(2, Pass::kForward), -1);
  EXPECT_EQ(order.Next(2, Pass::kBackward), 1);
  EXPECT_EQ(order.Next(0, Pass::kBackward), -1);
  EXPECT_TRUE(order.EndsForward(2));
}

TEST(UnitOrder, GuessesWhatTheLastPassDid) {
  UnitOrder order(3);
  RunPass(order, {1, 0, 2}, Pass::kForward);
  RunPass(order, {2, 0, 1}, Pass::kBackward);
  EXPECT_EQ(order.Next(1, Pass::kForward), 0);
  EXPECT_EQ(order.Next(0, Pass::kForward), 2);
  EXPECT_EQ(order.Next(0, Pass::kBackward), 1);
  RunPass(order, {0, 1}, Pass::kForward);
  order.EndPass();
  EXPECT_TRUE(order.EndsForward(1));
  EXPECT_EQ(order.Next(1, Pass::kForward), -1);
}

TEST(UnitOrder, AForwardPassWithoutBackwardEndsWhereItsUnitsComeAgain) {
  UnitOrder order(3);
  RunPass(order, {0, 1, 2}, Pass::kForward);
  RunPass(order, {0, 1, 2}, Pass::kForward);
  EXPECT_EQ(order.Next(2, Pass::kForward), -1);
  EXPECT_TRUE(order.EndsForward(2));
}

}  // namespace
}  // namespace zeroshard::zero

#include "zeroshard/model/unit_pass.h"

#include <vector>

#include "gtest/gtest.h"

namespace zeroshard::model {
namespace {

constexpr Pass F = Pass::kForward, R = Pass::kRecompute, B = Pass::kBackward;
using Passes = std::vector<UnitPass>;

TEST(TrainingPassesTest, WithoutRecomputation_BackwardIsForwardInReverse) {
  EXPECT_EQ(TrainingPasses(std::vector<bool>{}), Passes{});
  EXPECT_EQ(TrainingPasses({false, false, false}), (Passes{{0, F}, {1, F}, {2, F}, {2, B}, {1, B}, {0, B}}));
}

TEST(TrainingPassesTest, AGroup_RunsForwardAgainBeforeTheBackwardOfItsLastUnit) {
  EXPECT_EQ(TrainingPasses({false, true, true, false, true, false, false}), (Passes{{0, F},
                                                                                    {1, F},
                                                                                    {2, F},
                                                                                    {3, F},
                                                                                    {4, F},
                                                                                    {5, F},
                                                                                    {6, F},
                                                                                    {6, B},
                                                                                    {4, R},
                                                                                    {5, B},
                                                                                    {4, B},
                                                                                    {1, R},
                                                                                    {2, R},
                                                                                    {3, B},
                                                                                    {2, B},
                                                                                    {1, B},
                                                                                    {0, B}}));
}

TEST(TrainingPassesTest, UnitSpecs_SayWhichAreRecomputed) {
  EXPECT_EQ(
      TrainingPasses({UnitSpec{.name = "a", .parameters = {}, .recomputed = true}, UnitSpec{.name = "b", .parameters = {}}}),
      TrainingPasses({true, false}));
}

}  // namespace
}  // namespace zeroshard::model

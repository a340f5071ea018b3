#include "zeroshard/trainer/parameter_list.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zeroshard::trainer {
namespace {

TEST(ParameterList, ShowsDecayByGroupNotByName) {
  const std::vector<model::UnitSpec> units = {
      {.name = "u",
       .parameters = {{.name = "bias_like_name", .shape = {4, 8}, .group = 0},
                      {.name = "scale", .shape = {8}, .group = 1},
                      {.name = "still", .shape = {2}, .group = 0, .trainable = false},
                      {.name = "head", .shape = {4, 8}, .tied_to = "bias_like_name"}}}};
  optim::OptimizerOptions optimizer;
  optimizer.groups = {{.weight_decay = 0.25}, {.weight_decay = 0, .learning_rate_scale = 0.5}};
  const std::string table = ParameterList(units, optimizer);
  EXPECT_THAT(table, ::testing::ContainsRegex("bias_like_name +4 x 8 +32 +0  1 +0.25\n"));
  EXPECT_THAT(table, ::testing::ContainsRegex("scale +8 +8 +1  0.5 +0\n"));
  EXPECT_THAT(table, ::testing::ContainsRegex("still +2 +2   not trained\n"));
  EXPECT_THAT(table, ::testing::ContainsRegex("head +4 x 8 +32   is bias_like_name\n"));
}

}  // namespace
}  // namespace zeroshard::trainer

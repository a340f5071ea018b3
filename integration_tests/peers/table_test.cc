#include "zeroshard/integration_tests/peers/table.h"

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace zeroshard::integration_tests {
namespace {

TEST(Table, HoldsOursToThePeersOfTheSameRounds) {
  const Row row{
      .name = "reduce_scatter",
      .memory = "heap",
      .us = {{"ours", {10, 40, 12}}, {"prototype", {10, 40, 10}}, {"open_mpi", {30, 90, 31}}, {"mpich", {20, 99, 40}}},
      .goals = {{"prototype", 1.0}, {"mpi", 0.4}, {"us", 11}, {"floor", 2}}};
  const auto json = nlohmann::json::parse(RowJson(row));
  EXPECT_EQ(json["ours_us"]["least"], 10);
  EXPECT_EQ(json["ours_us"]["median"], 12);
  EXPECT_EQ(json["goals"][0]["by_median"], 1.0);
  EXPECT_EQ(json["goals"][0]["met"], true);
  EXPECT_EQ(json["goals"][1]["by_least"], 0.5);  // of the faster one: 20
  EXPECT_NEAR(json["goals"][1]["by_median"].get<double>(), 40.0 / 90, 1e-9);
  EXPECT_EQ(json["goals"][1]["met"], false);
  EXPECT_EQ(json["goals"][2]["met"], true);  // 10 us at the least
  EXPECT_TRUE(json["goals"][3]["met"].is_null());
}

TEST(Table, SaysWhyThereIsNoRow) {
  const auto json =
      nlohmann::json::parse(RowJson({.name = "tcp", .us = {}, .goals = {{"floor", 1.2}}, .left_out = "no ip"}));
  EXPECT_EQ(json["left_out"], "no ip");
  EXPECT_TRUE(json["goals"][0]["met"].is_null());
}

}  // namespace
}  // namespace zeroshard::integration_tests

#include "zeroshard/tools/config/batch_arithmetic.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zeroshard::tools {
namespace {

using ::testing::HasSubstr;

BatchNumber File(int64_t value) { return {value, "f.json:1:1: key", false}; }
BatchNumber Flag(int64_t value) { return {value, "--flag", true}; }

TEST(BatchArithmetic, AnyTwoGiveTheThird) {
  EXPECT_EQ(PlanBatch({.train_batch = File(256), .accumulation = File(4)}, 2)->batch, 32);
  EXPECT_EQ(PlanBatch({.train_batch = File(256), .batch = File(8)}, 2)->accumulation, 16);
  EXPECT_EQ(PlanBatch({.batch = File(8), .accumulation = File(4)}, 3)->train_batch, 96);
}

TEST(BatchArithmetic, OneOrNoneTakesDefaults) {
  EXPECT_EQ(PlanBatch({.train_batch = File(12), .default_batch = 8}, 3)->batch, 4);
  EXPECT_EQ(PlanBatch({.train_batch = File(12), .default_batch = 8}, 3)->accumulation, 1);
  EXPECT_EQ(PlanBatch({.accumulation = File(3), .default_batch = 8}, 2)->train_batch, 48);
  EXPECT_EQ(PlanBatch({.default_batch = 8}, 2)->train_batch, 16);
}

TEST(BatchArithmetic, WhatDoesNotDivideIsShownWithTheNearestThatDoes) {
  EXPECT_EQ(PlanBatch({.train_batch = File(10), .batch = File(4)}, 2).status().message(),
            "f.json:1:1: key: a train batch of 10 is no multiple of micro-batch 4 x 2 ranks = 8; the nearest that are: 8 "
            "(accumulation 1) and 16 (accumulation 2)");
  EXPECT_THAT(std::string(PlanBatch({.train_batch = File(10), .accumulation = File(4)}, 3).status().message()),
              HasSubstr("accumulation 4 x 3 ranks = 12; the nearest that are: 12 (micro-batch 1)"));
}

TEST(BatchArithmetic, AFilesNumbersHaveToAgree) {
  EXPECT_TRUE(PlanBatch({.train_batch = File(16), .batch = File(4), .accumulation = File(2)}, 2).ok());
  EXPECT_THAT(
      std::string(PlanBatch({.train_batch = File(10), .batch = File(4), .accumulation = File(2)}, 2).status().message()),
      HasSubstr("a train batch of 10 is not micro-batch 4 x accumulation 2 x 2 ranks = 16"));
  EXPECT_FALSE(PlanBatch({.train_batch = Flag(10), .batch = Flag(4), .accumulation = File(2)}, 2).ok());
}

TEST(BatchArithmetic, AFilesTrainBatchGivesWayToAFlagAndALineSaysSo) {
  const auto plan = PlanBatch({.train_batch = File(256), .batch = Flag(4), .accumulation = File(4)}, 2);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->train_batch, 32);
  EXPECT_EQ(plan->note, "f.json:1:1: key gives way to --flag: micro-batch 4 x accumulation 4 x 2 ranks = 32 rows a step");
  EXPECT_EQ(PlanBatch({.train_batch = File(32), .batch = Flag(4), .accumulation = File(4)}, 2)->note, "");
}

}  // namespace
}  // namespace zeroshard::tools

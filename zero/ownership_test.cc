#include "zeroshard/zero/ownership.h"

#include <gtest/gtest.h>

namespace zeroshard::zero {
namespace {

constexpr int64_t kSizes[] = {100, 60, 50, 40, 10};

TEST(AssignOwners, GoesRoundOrInRunsOrByLoad) {
  EXPECT_EQ(AssignOwners(Ownership::kRoundRobin, kSizes, 2), (std::vector<int>{0, 1, 0, 1, 0}));
  EXPECT_EQ(AssignOwners(Ownership::kContiguous, kSizes, 2), (std::vector<int>{0, 0, 0, 1, 1}));
  EXPECT_EQ(AssignOwners(Ownership::kBalanced, kSizes, 2), (std::vector<int>{0, 1, 1, 0, 1}));
}

TEST(AssignOwners, LeavesRanksWithoutWhereThereAreMoreOfThem) {
  EXPECT_EQ(AssignOwners(Ownership::kContiguous, kSizes, 8), (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_TRUE(AssignOwners(Ownership::kBalanced, {}, 8).empty());
}

}  // namespace
}  // namespace zeroshard::zero

#include "zeroshard/comm/late_chain.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace zeroshard::comm {
namespace {

// waits_for[r] < -1: rank r does not answer.
std::string Why(int rank, int peer, const std::vector<int>& waits_for) {
  return WhyLate(rank, peer, static_cast<int>(waits_for.size()), [&](int suspect) {
    const int next = waits_for[static_cast<size_t>(suspect)];
    return Testimony{.answers = next >= -1, .waits_for = next, .words = absl::StrCat("it is rank ", suspect)};
  });
}

TEST(WhyLate, NamesTheEndOfTheChain) {
  EXPECT_EQ(Why(0, 1, {1, -1, -1}), "it is rank 1");
  EXPECT_EQ(Why(0, 1, {1, 2, -1}), "it is rank 2; rank 1 waits for it");
  EXPECT_EQ(Why(0, 1, {1, 2, 3, -2}), "it is rank 3; rank 2 waits for it; rank 1 waits for it");
}

TEST(WhyLate, EndsInARing) {
  EXPECT_EQ(Why(0, 1, {1, 0}), "it is rank 1");
  EXPECT_EQ(Why(0, 1, {1, 2, 1}), "it is rank 2; rank 1 waits for it");
  EXPECT_EQ(Why(0, 1, {1, 1}), "it is rank 1");
}

TEST(WhyLate, NamesFirstOneThatIsSilentWhereOthersWaitForEachOther) {
  EXPECT_EQ(Why(0, 1, {1, 0, -2}), "it is rank 2; it is rank 1");
  EXPECT_EQ(Why(3, 1, {1, 0, -2, 1}), "it is rank 2; it is rank 0; rank 1 waits for it");
  EXPECT_EQ(Why(0, 1, {1, 0, -1, 2, -2}), "it is rank 4; it is rank 1");
  EXPECT_EQ(Why(0, 1, {1, 0, -1, 2}), "it is rank 1");
}

TEST(WhyLate, TakesNoRankThatIsNone) { EXPECT_EQ(Why(0, 1, {1, 7}), "it is rank 1"); }

}  // namespace
}  // namespace zeroshard::comm

#include "zeroshard/trainer/data/sample_order.h"

#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace zeroshard::trainer {
namespace {

using Mode = SampleOrder::Mode;

std::vector<int64_t> Epoch(const SampleOrder& order, int64_t epoch) {
  std::vector<int64_t> visited;
  for (int64_t i = 0; i < order.sequences(); ++i) visited.push_back(order.Sequence(epoch * order.sequences() + i));
  return visited;
}

TEST(SampleOrder, EveryEpochVisitsEverySequenceOnce) {
  for (int64_t sequences : {1, 2, 3, 4, 5, 16, 17, 63, 64, 65, 1000, 4096, 4097}) {
    SampleOrder order(sequences, 7, Mode::kShuffled);
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      const std::vector<int64_t> visited = Epoch(order, epoch);
      const std::set<int64_t> distinct(visited.begin(), visited.end());
      ASSERT_EQ(distinct.size(), static_cast<size_t>(sequences)) << sequences;
      ASSERT_EQ(*distinct.begin(), 0);
      ASSERT_EQ(*distinct.rbegin(), sequences - 1);
    }
  }
}

TEST(SampleOrder, EpochsAndSeedsDiffer) {
  SampleOrder order(1000, 7, Mode::kShuffled);
  EXPECT_NE(Epoch(order, 0), Epoch(order, 1));
  EXPECT_NE(Epoch(order, 0), Epoch(SampleOrder(1000, 8, Mode::kShuffled), 0));
  EXPECT_EQ(Epoch(order, 0), Epoch(SampleOrder(1000, 7, Mode::kShuffled), 0));
}

TEST(SampleOrder, ShuffledOrderIsSpread) {
  // Neighbours of an order that is spread lie a third of the length apart on average.
  const int64_t n = 10000;
  const std::vector<int64_t> visited = Epoch(SampleOrder(n, 1, Mode::kShuffled), 0);
  double apart = 0;
  for (size_t i = 1; i < visited.size(); ++i) apart += std::abs(static_cast<double>(visited[i] - visited[i - 1]));
  apart /= static_cast<double>(n - 1);
  EXPECT_NEAR(apart, n / 3.0, n / 30.0);
}

TEST(SampleOrder, SequentialRunsThroughTheFileAgainAndAgain) {
  SampleOrder order(5, 99, Mode::kSequential);
  for (int64_t i = 0; i < 12; ++i) EXPECT_EQ(order.Sequence(i), i % 5);
}

TEST(SampleOrder, CountsBeyondTwoToThe32) {
  const int64_t sequences = int64_t{10'000'000'000};
  SampleOrder order(sequences, 3, Mode::kShuffled);
  std::set<int64_t> seen;
  for (int64_t i = 0; i < 1000; ++i) {
    const int64_t at = order.Sequence(sequences * 3 + sequences / 2 + i);
    ASSERT_GE(at, 0);
    ASSERT_LT(at, sequences);
    ASSERT_TRUE(seen.insert(at).second);
  }
}

}  // namespace
}  // namespace zeroshard::trainer

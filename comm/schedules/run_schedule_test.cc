// Whom ranks talk to, and who holds which part on the way up the tree.

#include "zeroshard/comm/schedules/run_schedule.h"

#include <algorithm>
#include <set>

#include "gtest/gtest.h"
#include "zeroshard/comm/schedules/tree.h"

namespace zeroshard::comm {
namespace {

TEST(Tree, LeavesPartPWithRankPAtTheTop) {
  for (int n = 1; n <= 70; ++n) {
    for (int part = 0; part < n; ++part) EXPECT_EQ(OwnerOf(0, TreeLevels(n), part, n), part);
  }
}

TEST(Tree, KeepsANodesPartsWithinTheNode) {
  for (const int n : {2, 3, 5, 8, 13, 17}) {
    for (int level = 0; level <= TreeLevels(n); ++level) {
      for (int first = 0; first < n; first += 1 << level) {
        for (int part = 0; part < n; ++part) {
          const int owner = OwnerOf(first, level, part, n);
          EXPECT_GE(owner, first);
          EXPECT_LT(owner, std::min(n, first + (1 << level)));
        }
      }
    }
  }
}

TEST(Peers, KnowEachOther) {
  for (const ScheduleChoice choice : {ScheduleChoice::kBySize, ScheduleChoice::kDirect, ScheduleChoice::kHalving}) {
    for (int n = 2; n <= 40; ++n) {
      std::vector<std::set<int>> peers;
      for (int r = 0; r < n; ++r) {
        const std::vector<int> of_rank = PeersOf(r, n, choice);
        peers.emplace_back(of_rank.begin(), of_rank.end());
        EXPECT_EQ(peers.back().size(), of_rank.size());
      }
      for (int r = 0; r < n; ++r) {
        for (const int p : peers[static_cast<size_t>(r)])
          EXPECT_TRUE(peers[static_cast<size_t>(p)].contains(r)) << n << " " << r;
      }
    }
  }
}

TEST(Peers, AreFewWhereRanksAreMany) {
  for (const int n : {64, 256, 512}) {
    for (const int r : {0, 1, n / 2, n - 1}) EXPECT_LE(PeersOf(r, n, ScheduleChoice::kBySize).size(), 3u * TreeLevels(n));
  }
}

}  // namespace
}  // namespace zeroshard::comm

// Whom ranks talk to, and who holds which part on the way up the tree.

#include "zeroshard/comm/schedules/run_schedule.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "zeroshard/comm/schedules/host_grid.h"
#include "zeroshard/comm/schedules/tree.h"
#include "zeroshard/comm/transport.h"

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

// Of a group whose ranks are on these hosts.
class HostsOnly final : public Transport {
 public:
  explicit HostsOnly(std::vector<int> hosts) : hosts_(std::move(hosts)) {}
  int rank() const override { return 0; }
  int world_size() const override { return static_cast<int>(hosts_.size()); }
  std::string_view name() const override { return "hosts only"; }
  int host(int rank) const override { return hosts_[static_cast<size_t>(rank)]; }
  Transfer Send(int, Channel, const void*, int64_t) override { return {}; }
  Transfer Receive(int, Channel, void*, int64_t) override { return {}; }
  absl::Status Wait(Transfer, Deadline) override { return absl::UnimplementedError(""); }
  void Cancel(const absl::Status&) override {}
  void Quiesce() override {}
  void OnPeerFailed(std::function<void(int, const absl::Status&)>) override {}
  absl::StatusOr<std::unique_ptr<Transport>> Split(const SplitSpec&) override { return absl::UnimplementedError(""); }

 private:
  std::vector<int> hosts_;
};

HostGrid GridOf(std::vector<int> hosts) { return HostGridOf(HostsOnly(std::move(hosts))); }

TEST(HostGridTest, HasTwoLevelsWhereHostsHoldAsManyRanksInARow) {
  const HostGrid grid = GridOf({0, 0, 2, 2, 4, 4});
  EXPECT_EQ(grid.hosts, 3);
  EXPECT_EQ(grid.each, 2);
  EXPECT_TRUE(grid.two_levels());
  EXPECT_EQ(grid.RankAt(grid.HostOf(3), grid.PlaceOf(3)), 3);
  EXPECT_FALSE(GridOf({0, 0, 0, 3, 3, 3}).hosts_are_nodes());
  EXPECT_TRUE(GridOf({0, 0, 0, 0, 4, 4, 4, 4}).hosts_are_nodes());
  for (const std::vector<int>& hosts : std::vector<std::vector<int>>{{0},
                                                                     {0, 0},
                                                                     {0, 1},
                                                                     {0, 1, 2, 3},
                                                                     {0, 1, 0, 1},
                                                                     {0, 0, 2},
                                                                     {0, 0, 2, 2, 0, 0},
                                                                     {0, 0, 2, 2, 2},
                                                                     {0, 0, 0, 3},
                                                                     {0, 0, 2, 3}}) {
    EXPECT_FALSE(GridOf(hosts).two_levels()) << ::testing::PrintToString(hosts);
  }
}

TEST(Schedule, GoesByHostWhereThereAreTwoLevels) {
  const HostGrid two = {.hosts = 2, .each = 4};
  const HostGrid flat = {.hosts = 8, .each = 1};
  EXPECT_EQ(Resolve(ScheduleChoice::kBySize, 8, two), ScheduleChoice::kByHost);
  EXPECT_EQ(Resolve(ScheduleChoice::kBySize, 8, flat), ScheduleChoice::kDirect);
  EXPECT_EQ(Resolve(ScheduleChoice::kBySize, 8, {.hosts = 1, .each = 8}), ScheduleChoice::kDirect);
  EXPECT_EQ(Resolve(ScheduleChoice::kByHost, 8, flat), ScheduleChoice::kDirect);
  EXPECT_EQ(Resolve(ScheduleChoice::kDirect, 8, two), ScheduleChoice::kDirect);
  EXPECT_EQ(Resolve(ScheduleChoice::kBySize, 32, {.hosts = 4, .each = 8}), ScheduleChoice::kHalving);
}

TEST(Peers, KnowEachOther) {
  for (const ScheduleChoice choice : {ScheduleChoice::kByHost, ScheduleChoice::kDirect, ScheduleChoice::kHalving}) {
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
    for (const int r : {0, 1, n / 2, n - 1}) EXPECT_LE(PeersOf(r, n, ScheduleChoice::kHalving).size(), 3u * TreeLevels(n));
  }
}

}  // namespace
}  // namespace zeroshard::comm

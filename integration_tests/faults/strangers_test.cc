// Ten thousand strangers on every port of the ranks, for as long as they have ports: the run is unharmed, with the right
// numbers.
#include "zeroshard/comm/testing/strangers.h"

#include <unistd.h>

#include <memory>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "zeroshard/integration_tests/faults/random_operations.h"
#include "zeroshard/integration_tests/faults/ranks.h"

namespace zeroshard::integration_tests {
namespace {

using comm::testing::ListeningPort;

constexpr int kRanks = 3;

// Where the ranks listened once all were connected; nobody is answered there.
std::set<ListeningPort> RunAmongStrangers(Ranks& ranks) {
  comm::testing::StrangersEverywhere everywhere;
  ranks.Start(kRanks, absl::Seconds(60), [](comm::Communicator& rank, RankReport& report) {
    if (const absl::Status status = RunOperations(rank, report, {.seed = 1, .most = 40, .finalize = false}); !status.ok()) {
      return status;
    }
    report.number = 1;
    usleep(300'000);  // Looked at by the test.
    return RunOperations(rank, report, {.seed = 2, .most = 400, .registered = false});
  });
  std::vector<pid_t> processes;
  for (int rank = 0; rank < kRanks; ++rank) processes.push_back(ranks.process(rank));
  everywhere.Follow(processes);
  for (int i = 0; i < 20000 && ranks.report(0).number == 0 && ranks.report(0).ended_ms == 0; ++i) usleep(2000);
  std::set<ListeningPort> connected;
  for (const pid_t process : processes) connected.merge(comm::testing::ListeningPorts(process));
  comm::testing::Strangers one;
  const bool dropped = comm::testing::MayDropConnections();
  for (const ListeningPort& port : connected)
    EXPECT_FALSE(dropped && one.Visit(port, 50)) << port.first << " port " << port.second;
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_TRUE(ranks.Ended(rank, NowMs() + 60000)) << "rank " << rank << " hangs";
    EXPECT_EQ(ranks.Crash(rank), "");
    EXPECT_EQ(ranks.report(rank).code, absl::StatusCode::kOk) << ranks.message(rank);
    EXPECT_EQ(ranks.report(rank).operations, 440);
    EXPECT_EQ(ranks.report(rank).wrong, 0);
  }
  return connected;
}

TEST(Strangers, FindNoPortOnceGloosRanksAreConnected) {
  EXPECT_TRUE(RunAmongStrangers(*MakeProcessRanks("gloo", {})).empty());
}

TEST(Strangers, FindNoPortOnceUcxsRanksShareMemory) { EXPECT_TRUE(RunAmongStrangers(*MakeProcessRanks("ucx", {})).empty()); }

TEST(Strangers, AreNotAnsweredOnceUcxsRanksAreConnectedOverTcp) {
  EXPECT_FALSE(RunAmongStrangers(*MakeProcessRanks("ucx", {{"UCX_TLS", "tcp"}})).empty());
}

}  // namespace
}  // namespace zeroshard::integration_tests

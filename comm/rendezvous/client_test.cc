#include "zeroshard/comm/rendezvous/client.h"

#include <sys/socket.h>

#include <array>
#include <memory>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace zeroshard::comm {
namespace {

// A rank 0 that is stopped. A watchdog makes a dozen calls before it gives up.
TEST(RendezvousClient, WaitsOnceAloneForARankZeroThatDoesNotAnswer) {
  std::array<int, 2> ends = {};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
  const Socket server(ends[1]);
  constexpr absl::Duration kPatience = absl::Seconds(4);
  RendezvousClient client(Socket(ends[0]), {.patience = kPatience});
  const absl::Time begin = absl::Now();
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(client.Set("a", "b").code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_EQ(client.Get("a").status().code(), absl::StatusCode::kDeadlineExceeded);
  }
  EXPECT_GE(absl::Now() - begin, kPatience);
  EXPECT_LT(absl::Now() - begin, 4 * kPatience);
}

TEST(RendezvousClient, TellsOfTheOperationThatItsRankBeganLast) {
  std::array<int, 2> ends = {};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
  const Socket server(ends[1]);
  RendezvousClient client(Socket(ends[0]), {});
  EXPECT_EQ(client.last().number, 0u);
  auto recorder = std::make_shared<device::Recorder>();
  client.Follow(recorder);
  EXPECT_EQ(client.last().number, 0u);
  // Groups number their operations each for itself.
  const auto first = recorder->Issue({.name = "all-gather", .label = "h.1", .sequence = 7, .count = 3});
  const auto second = recorder->Issue({.name = "reduce-scatter", .label = "h.2", .group = "replicas 0,2", .sequence = 7});
  recorder->Issue({.name = "barrier", .sequence = 8});
  device::Recorder::Began(first, 0);
  EXPECT_EQ(Describe(client.last()), "all-gather #7 'h.1' (uint8, 3 elements)");
  device::Recorder::Began(second, 0);
  device::Recorder::Ended(first);
  EXPECT_EQ(Describe(client.last()), "reduce-scatter #7 'h.2' (uint8, 0 elements) in replicas 0,2");
  EXPECT_FALSE(client.last().ended);
  device::Recorder::Ended(second);
  recorder.reset();
  EXPECT_TRUE(client.last().ended);
}

}  // namespace
}  // namespace zeroshard::comm

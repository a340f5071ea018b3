#include "zeroshard/comm/rendezvous/client.h"

#include <sys/socket.h>

#include <array>
#include <memory>

#include "gtest/gtest.h"

namespace zeroshard::comm {
namespace {

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

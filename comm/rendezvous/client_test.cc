#include "zeroshard/comm/rendezvous/client.h"

#include <sys/socket.h>

#include <array>

#include "gtest/gtest.h"

namespace zeroshard::comm {
namespace {

// Groups number their operations each for itself.
TEST(RendezvousClient, TakesNoOperationForOneOfAnotherGroup) {
  std::array<int, 2> ends = {};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
  const Socket server(ends[1]);
  RendezvousClient client(Socket(ends[0]), {});
  client.Note({.number = 7, .id = 20});
  client.Note({.number = 7, .id = 21});
  client.NoteEnd(20);
  EXPECT_FALSE(client.last().ended);
  client.NoteEnd(21);
  EXPECT_TRUE(client.last().ended);
}

}  // namespace
}  // namespace zeroshard::comm

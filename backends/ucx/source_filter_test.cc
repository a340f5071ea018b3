#include "zeroshard/backends/ucx/source_filter.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "zeroshard/comm/network_address.h"
#include "zeroshard/comm/socket.h"

namespace zeroshard::backends {
namespace {

using comm::Socket;

Socket BoundTo(const std::string& address) {
  sockaddr_storage at;
  const socklen_t length = comm::MakeSocketAddress(address, 0, at);
  Socket socket(::socket(at.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  return bind(socket.get(), reinterpret_cast<sockaddr*>(&at), length) == 0 ? std::move(socket) : Socket();
}

// Whether somebody at the one address gets through to the listener, which is at the other.
bool Reaches(const std::string& from, const std::string& to, const Socket& listener) {
  sockaddr_storage there;
  const socklen_t length = comm::MakeSocketAddress(to, comm::BoundPort(listener.get()), there);
  const Socket socket = BoundTo(from);
  EXPECT_TRUE(socket) << from;
  if (connect(socket.get(), reinterpret_cast<sockaddr*>(&there), length) != 0 && errno != EINPROGRESS) return false;
  pollfd entry = {.fd = socket.get(), .events = POLLOUT, .revents = 0};
  return poll(&entry, 1, 200) == 1 && (entry.revents & (POLLERR | POLLHUP)) == 0;
}

class SourceFilter : public ::testing::Test {
 protected:
  // Null where this machine has no such address.
  static Socket Listen(const std::string& address) {
    Socket socket = BoundTo(address);
    if (socket && listen(socket.get(), 16) != 0) return {};
    return socket;
  }
  static void Allow(const Socket& listener, const std::vector<std::string>& sources) {
    const absl::Status status = AllowOnly(listener.get(), sources);
    if (absl::IsPermissionDenied(status)) GTEST_SKIP() << "this machine lets nobody set filters: " << status;
    ASSERT_TRUE(status.ok()) << status;
  }
};

TEST_F(SourceFilter, LetsInThoseThatAreNamed) {
  const Socket listener = Listen("127.0.0.1");
  ASSERT_TRUE(Reaches("127.0.0.7", "127.0.0.1", listener));
  Allow(listener, {"127.0.0.1", "fd00::1", "127.0.0.3"});
  if (IsSkipped()) return;
  EXPECT_TRUE(Reaches("127.0.0.1", "127.0.0.1", listener));
  EXPECT_TRUE(Reaches("127.0.0.3", "127.0.0.1", listener));
  EXPECT_FALSE(Reaches("127.0.0.2", "127.0.0.1", listener));
  EXPECT_FALSE(Reaches("127.0.1.1", "127.0.0.1", listener));
}

TEST_F(SourceFilter, LetsInNobodyWhereNobodyIsNamed) {
  const Socket listener = Listen("127.0.0.1");
  Allow(listener, {});
  if (IsSkipped()) return;
  EXPECT_FALSE(Reaches("127.0.0.1", "127.0.0.1", listener));
}

TEST_F(SourceFilter, ComparesAllOfAnIPv6Address) {
  const Socket listener = Listen("::1");
  if (!listener) GTEST_SKIP() << "this machine has no IPv6";
  Allow(listener, {"::2", "1::1", "0:0:1::1", "0:0:0:0:1::1", "127.0.0.1"});
  if (IsSkipped()) return;
  EXPECT_FALSE(Reaches("::1", "::1", listener));
  Allow(listener, {"::2", "::1"});
  EXPECT_TRUE(Reaches("::1", "::1", listener));
}

TEST_F(SourceFilter, ThatIsTooLongIsRefusedAndLeavesTheSocketAsItWas) {
  const Socket listener = Listen("127.0.0.1");
  std::vector<std::string> many;
  for (int i = 0; i < 2000; ++i) many.push_back(absl::StrCat("10.0.", i / 250, ".", i % 250));
  EXPECT_TRUE(absl::IsResourceExhausted(AllowOnly(listener.get(), many)));
  EXPECT_TRUE(Reaches("127.0.0.1", "127.0.0.1", listener));
}

TEST_F(SourceFilter, IsOfSocketsOfIpAlone) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(AllowOnly(ends[0], {})));
  for (const int end : ends) close(end);
}

}  // namespace
}  // namespace zeroshard::backends

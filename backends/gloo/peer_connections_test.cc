#include "zeroshard/backends/gloo/peer_connections.h"

#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "zeroshard/backends/gloo/greeting.h"
#include "zeroshard/comm/network_address.h"
#include "zeroshard/comm/port_range.h"
#include "zeroshard/comm/store_memory.h"
#include "zeroshard/comm/testing/strangers.h"

namespace zeroshard::backends {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Peers = absl::StatusOr<std::vector<PeerSockets>>;

ConnectOptions Options(comm::Store& store, int rank, int world_size, absl::Duration timeout = absl::Seconds(20)) {
  ConnectOptions options;
  options.store = &store;
  options.rank = rank;
  options.world_size = world_size;
  options.timeout = timeout;
  return options;
}

// Ranks [0, started) of `world_size` connect.
std::vector<Peers> Connect(comm::Store& store, int world_size, int started, absl::Duration timeout = absl::Seconds(20),
                           const std::string& interface = "", const comm::PortRange& ports = {}) {
  std::vector<Peers> peers(static_cast<size_t>(started));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < started; ++rank) {
    threads.emplace_back([&, rank] {
      ConnectOptions options = Options(store, rank, world_size, timeout);
      options.interface = interface;
      options.ports = ports;
      peers[static_cast<size_t>(rank)] = ConnectPeers(options);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return peers;
}

// What rank a writes, rank b reads, on both connections.
void ExpectConnected(const std::vector<Peers>& peers) {
  for (size_t a = 0; a < peers.size(); ++a) {
    ASSERT_TRUE(peers[a].ok()) << peers[a].status();
    for (size_t b = 0; b < peers.size(); ++b) {
      if (a == b) continue;
      for (const auto member : {&PeerSockets::data, &PeerSockets::line}) {
        const char sent = static_cast<char>(10 * a + b);
        char got = 0;
        ASSERT_EQ(write(((*peers[a])[b].*member).get(), &sent, 1), 1);
        for (int i = 0; i < 1000 && read(((*peers[b])[a].*member).get(), &got, 1) != 1; ++i) usleep(1000);
        EXPECT_EQ(got, sent);
      }
    }
  }
}

TEST(ConnectPeers, JoinsEachPairTwice) {
  for (const int world_size : {1, 2, 5}) {
    comm::MemoryStore store;
    ExpectConnected(Connect(store, world_size, world_size));
  }
}

TEST(ConnectPeers, WorksOverIpVersion6) {
  const auto here = comm::ListAddresses();
  ASSERT_TRUE(here.ok());
  bool has = false;
  for (const comm::NetworkAddress& address : *here) has = has || address.text == "::1";
  if (!has) GTEST_SKIP() << "this host has no ::1";
  comm::MemoryStore store;
  ExpectConnected(Connect(store, 3, 3, absl::Seconds(20), "::1"));
}

TEST(ConnectPeers, ListensAtAPortOfTheRangeThatIsFree) {
  const comm::Socket first = *comm::ListenWithin("127.0.0.1", {});
  const int taken = comm::BoundPort(first.get());
  // Two ranks listen at other ports of it than that; the third, which nobody connects to, too.
  const comm::PortRange range = {.first = taken - 20, .last = taken};
  comm::MemoryStore store;
  const std::vector<Peers> peers = Connect(store, 3, 3, absl::Seconds(20), "", range);
  ExpectConnected(peers);
  for (const int rank : {0, 1}) {
    const int port = comm::BoundPort((*peers[static_cast<size_t>(rank)])[2].line.get());
    EXPECT_TRUE(port >= range.first && port < taken) << port;
  }
}

TEST(ConnectPeers, SaysWhichPortsAreTaken) {
  const comm::Socket first = *comm::ListenWithin("127.0.0.1", {});
  const int taken = comm::BoundPort(first.get());
  comm::MemoryStore store;
  const std::vector<Peers> peers = Connect(store, 2, 2, absl::Seconds(20), "", {.first = taken, .last = taken});
  for (const Peers& rank : peers) {
    EXPECT_TRUE(absl::IsAlreadyExists(rank.status())) << rank.status();
    EXPECT_THAT(std::string(rank.status().message()), AllOf(HasSubstr("127.0.0.1"), HasSubstr(std::to_string(taken))));
  }
}

TEST(ConnectPeers, NamesTheRanksThatDidNotCome) {
  comm::MemoryStore store;
  for (const Peers& peers : Connect(store, 4, 2, absl::Milliseconds(200))) {
    EXPECT_EQ(peers.status().code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(std::string(peers.status().message()), HasSubstr("ranks 2, 3 of 4 have not come to the store in memory"));
  }
}

TEST(ConnectPeers, RefusesAnInterfaceThatIsNotThere) {
  comm::MemoryStore store;
  for (const Peers& peers : Connect(store, 2, 2, absl::Milliseconds(300), "ib7")) {
    EXPECT_EQ(peers.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(peers.status().message()), HasSubstr("127.0.0.1"));
  }
}

TEST(ConnectPeers, SaysWhereARankWasNotReached) {
  comm::MemoryStore store;
  ASSERT_EQ(store.Set("host/0", "elsewhere"), absl::OkStatus());
  // Rank 0 came, published an address where nobody listens, and is gone.
  ASSERT_EQ(store.Set("address/0", "127.0.0.1 9 " + std::string(kTokenBytes, 'a')), absl::OkStatus());
  ConnectOptions options = Options(store, 1, 2, absl::Milliseconds(300));
  options.interface = "127.0.0.1";
  const Peers peers = ConnectPeers(options);
  EXPECT_EQ(peers.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(peers.status().message()), HasSubstr("did not reach rank 0 at 127.0.0.1 port 9"));
  EXPECT_THAT(std::string(peers.status().message()), HasSubstr("Connection refused"));
}

TEST(ConnectPeers, RefusesAnAddressThatIsNone) {
  for (const char* published : {"", "x", "127.0.0.1 70000 aaaa", "host 80 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}) {
    comm::MemoryStore store;
    ASSERT_EQ(store.Set("host/0", "elsewhere"), absl::OkStatus());
    ASSERT_EQ(store.Set("address/0", published), absl::OkStatus());
    ConnectOptions options = Options(store, 1, 2, absl::Milliseconds(300));
    options.interface = "127.0.0.1";
    EXPECT_EQ(ConnectPeers(options).status().code(), absl::StatusCode::kUnavailable);
  }
}

int ConnectTo(const std::string& address, int port) {
  sockaddr_storage to;
  const socklen_t length = comm::MakeSocketAddress(address, port, to);
  const int stranger = socket(to.ss_family, SOCK_STREAM, 0);
  EXPECT_EQ(connect(stranger, reinterpret_cast<sockaddr*>(&to), length), 0);
  return stranger;
}

TEST(ConnectPeers, TurnsStrangersAwayHoweverTheyBehave) {
  comm::MemoryStore store;
  Peers first = absl::UnknownError(""), second = absl::UnknownError("");
  std::thread rank_0([&] { first = ConnectPeers(Options(store, 0, 2)); });
  ASSERT_EQ(store.Set("host/1", "not yet here"), absl::OkStatus());
  const auto published = store.Get("address/0", absl::Seconds(20));
  ASSERT_TRUE(published.ok());
  const std::vector<std::string> parts = absl::StrSplit(*published, ' ');
  int port = 0;
  ASSERT_TRUE(absl::SimpleAtoi(parts[1], &port));
  std::vector<int> strangers;
  const std::string words[] = {"", "G", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", std::string(4096, '\0'),
                               std::string(4096, '\xff')};
  for (const std::string& said : words) {
    strangers.push_back(ConnectTo(parts[0], port));
    EXPECT_EQ(send(strangers.back(), said.data(), said.size(), MSG_NOSIGNAL), static_cast<ssize_t>(said.size()));
  }
  // One that knows the form, and not the token; and one that knows the token, and says a rank that it cannot be.
  const Greeting guesses[] = {MakeGreeting({.rank = 1, .world_size = 2}, std::string(kTokenBytes, '0')),
                              MakeGreeting({.rank = 0, .world_size = 2}, parts[2])};
  for (const Greeting& guess : guesses) {
    strangers.push_back(ConnectTo(parts[0], port));
    EXPECT_EQ(send(strangers.back(), &guess, sizeof(guess), MSG_NOSIGNAL), static_cast<ssize_t>(sizeof(guess)));
  }
  absl::SleepFor(absl::Milliseconds(50));
  ConnectOptions options = Options(store, 1, 2);
  options.interface = parts[0];
  second = ConnectPeers(options);
  rank_0.join();
  std::vector<Peers> peers;
  peers.push_back(std::move(first));
  peers.push_back(std::move(second));
  ExpectConnected(peers);
  for (const int stranger : strangers) close(stranger);
}

TEST(ConnectPeers, BearsTenThousandStrangers) {
  comm::MemoryStore store;
  Peers first = absl::UnknownError("");
  std::thread rank_0([&] { first = ConnectPeers(Options(store, 0, 2)); });
  ASSERT_EQ(store.Set("host/1", "not yet here"), absl::OkStatus());
  const auto published = store.Get("address/0", absl::Seconds(20));
  ASSERT_TRUE(published.ok());
  const std::vector<std::string> parts = absl::StrSplit(*published, ' ');
  int port = 0;
  ASSERT_TRUE(absl::SimpleAtoi(parts[1], &port));
  comm::testing::Strangers strangers;
  std::atomic<bool> over{false};
  std::thread storm([&] {
    while (strangers.visits() < 10000) strangers.Visit({parts[0], port});
    while (!over) strangers.Visit({parts[0], port});
  });
  while (strangers.visits() < 9000) absl::SleepFor(absl::Milliseconds(1));
  ConnectOptions options = Options(store, 1, 2);
  options.interface = parts[0];
  std::vector<Peers> peers;
  peers.push_back(absl::UnknownError(""));
  peers.push_back(ConnectPeers(options));
  rank_0.join();
  over = true;
  storm.join();
  peers[0] = std::move(first);
  ExpectConnected(peers);
  EXPECT_GT(strangers.answered(), 5000);
}

}  // namespace
}  // namespace zeroshard::backends

#include "zeroshard/comm/rendezvous/tcp_store.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "zeroshard/comm/network_address.h"
#include "zeroshard/comm/rendezvous/greeting.h"
#include "zeroshard/comm/rendezvous/service_address.h"
#include "zeroshard/comm/socket.h"

namespace zeroshard::comm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kToken[] = "0123456789abcdef0123456789abcdef";

std::string Message(const absl::Status& status) { return std::string(status.message()); }

// A port of loopback that nobody listens on.
int FreePort() {
  const Socket listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_storage address;
  socklen_t length = MakeSocketAddress("127.0.0.1", 0, address);
  EXPECT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
  getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(reinterpret_cast<sockaddr_in&>(address).sin_port);
}

Socket ConnectAsStranger(int port) {
  Socket stranger(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_storage address;
  const socklen_t length = MakeSocketAddress("127.0.0.1", port, address);
  if (connect(stranger.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) return Socket();
  return stranger;
}

StoreMember Member(int rank, int world_size, absl::Duration timeout = absl::Seconds(20)) {
  return {.rank = rank, .world_size = world_size, .timeout = timeout, .single_host = true, .token = kToken};
}

class TcpStoreTest : public ::testing::Test {
 protected:
  std::string Address() const { return absl::StrCat("127.0.0.1:", port_); }

  // Each rank on a thread of its own, from opening to leaving; gives how each ended.
  std::vector<absl::Status> Run(std::vector<StoreMember> members, const std::function<absl::Status(int, Store&)>& body) {
    std::vector<absl::Status> ended(members.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < members.size(); ++i) {
      threads.emplace_back([&, i] {
        auto store = TcpStore::Open(Address(), members[i]);
        ended[i] = store.ok() ? body(members[i].rank, **store) : store.status();
      });
    }
    for (std::thread& thread : threads) thread.join();
    return ended;
  }

  const int port_ = FreePort();
};

absl::Status Nothing(int /*rank*/, Store& /*store*/) { return absl::OkStatus(); }

TEST_F(TcpStoreTest, EveryRankSeesWhatTheOthersSet) {
  constexpr int kRanks = 5;
  std::vector<StoreMember> members;
  for (int rank = 0; rank < kRanks; ++rank) members.push_back(Member(rank, kRanks));
  std::atomic<int64_t> sums{0};
  const auto ended = Run(members, [&](int rank, Store& store) -> absl::Status {
    const std::string bytes("\0\xff value", 8);
    if (const absl::Status set = store.Set(absl::StrCat("k/", rank), bytes); !set.ok()) return set;
    std::vector<std::string> keys;
    for (int peer = 0; peer < kRanks; ++peer) keys.push_back(absl::StrCat("k/", peer));
    if (const absl::Status wait = store.Wait(keys, absl::Seconds(20)); !wait.ok()) return wait;
    for (const std::string& key : keys) {
      EXPECT_EQ(store.Get(key, absl::Seconds(1)).value(), bytes);
    }
    EXPECT_FALSE(store.TryGet("nothing").value().has_value());
    const auto sum = store.Add("count", rank + 1);
    if (!sum.ok()) return sum.status();
    sums = std::max<int64_t>(sums, *sum);
    EXPECT_EQ(store.Add("k/0", 1).status().code(), absl::StatusCode::kFailedPrecondition);
    return absl::OkStatus();
  });
  for (const absl::Status& status : ended) EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(sums, 15);
}

TEST_F(TcpStoreTest, NamesTheKeysAndTheRanksThatAreMissing) {
  const auto ended = Run({Member(0, 2), Member(1, 2)}, [](int rank, Store& store) -> absl::Status {
    if (rank == 1) return store.Get("never", absl::Milliseconds(200)).status();
    return store.Get("late", absl::Seconds(0)).status();
  });
  EXPECT_EQ(ended[1].code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Message(ended[1]), HasSubstr("\"never\""));
  EXPECT_EQ(ended[0].code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(TcpStoreTest, NamesTheRanksThatDidNotCome) {
  const auto ended = Run({Member(0, 4, absl::Seconds(1)), Member(2, 4, absl::Seconds(5))}, Nothing);
  EXPECT_EQ(ended[0].code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Message(ended[0]), HasSubstr("ranks 1, 3 have not come"));
  EXPECT_THAT(Message(ended[1]), HasSubstr("rank 0 gave up"));
}

TEST_F(TcpStoreTest, WaitsForARankZeroThatComesLate) {
  std::vector<absl::Status> ended(2);
  std::thread other([&] { ended[1] = TcpStore::Open(Address(), Member(1, 2)).status(); });
  absl::SleepFor(absl::Milliseconds(300));
  ended[0] = TcpStore::Open(Address(), Member(0, 2)).status();
  other.join();
  for (const absl::Status& status : ended) EXPECT_TRUE(status.ok()) << status;
}

TEST_F(TcpStoreTest, TellsEachRankBothValuesOfWhatDiffers) {
  StoreMember zero = Member(0, 3), one = Member(1, 3), two = Member(2, 3);
  zero.terms = two.terms = {{"--backend", "gloo"}, {"version", "1"}};
  one.terms = {{"--backend", "ucx"}, {"version", "1"}};
  for (const absl::Status& status : Run({zero, one, two}, Nothing)) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(Message(status), HasSubstr("rank 1 has --backend=ucx, rank 0 has --backend=gloo"));
    EXPECT_THAT(Message(status), Not(HasSubstr("version")));
  }
}

TEST_F(TcpStoreTest, RefusesRanksThatDisagreeOnTheWorldSize) {
  for (const absl::Status& status : Run({Member(0, 2), Member(1, 3)}, Nothing)) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(Message(status), HasSubstr("rank 1 speaks of 3 ranks, rank 0 of 2 ranks"));
  }
}

TEST_F(TcpStoreTest, RefusesASecondProcessOfOneRank) {
  const auto ended = Run({Member(0, 2, absl::Seconds(3)), Member(0, 2, absl::Seconds(3))}, Nothing);
  int taken = 0;
  for (const absl::Status& status : ended) taken += absl::IsAlreadyExists(status) ? 1 : 0;
  EXPECT_EQ(taken, 1);
}

TEST_F(TcpStoreTest, RefusesAnotherToken) {
  std::thread host([&] { (void)TcpStore::Open(Address(), Member(0, 2, absl::Seconds(2))); });
  StoreMember stranger = Member(1, 2);
  stranger.token = "0123456789abcdef0123456789abcdee";
  absl::Status refused;
  do {
    refused = TcpStore::Open(Address(), stranger).status();
  } while (absl::IsDeadlineExceeded(refused));
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(Message(refused), AllOf(HasSubstr(Address()), HasSubstr("token"), Not(HasSubstr(kToken))));
  host.join();
}

TEST_F(TcpStoreTest, SaysWhichPortIsTaken) {
  const auto taken = ListenAt({.host = "127.0.0.1", .port = port_}, {.single_host = true});
  ASSERT_TRUE(taken.ok()) << taken.status();
  const absl::Status status = TcpStore::Open(Address(), Member(0, 2)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(Message(status), HasSubstr(absl::StrCat("127.0.0.1 port ", port_)));
}

TEST_F(TcpStoreTest, BearsStrangers) {
  std::atomic<bool> over{false};
  const std::vector<std::string> said = {"",
                                         "GET / HTTP/1.1\r\n\r\n",
                                         std::string(100000, '\xff'),
                                         "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                                         std::string(kRendezvousMagic, 8) + std::string(400, '\0'),
                                         std::string(kRendezvousMagic, 8)};
  std::thread strangers([&] {
    std::vector<Socket> open;
    for (size_t i = 0; !over; ++i) {
      open.push_back(ConnectAsStranger(port_));
      const std::string& words = said[i % said.size()];
      if (open.back()) (void)!send(open.back().get(), words.data(), words.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (i % 7 == 0 && open.back()) shutdown(open.back().get(), SHUT_WR);
      if (open.size() > 300) open.erase(open.begin(), open.begin() + 150);
    }
  });
  std::vector<StoreMember> members;
  for (int rank = 0; rank < 3; ++rank) members.push_back(Member(rank, 3));
  const auto ended = Run(members, [](int rank, Store& store) -> absl::Status {
    for (int i = 0; i < 50; ++i) {
      if (const absl::Status set = store.Set(absl::StrCat(rank, "/", i), "x"); !set.ok()) return set;
      if (const auto got = store.Get(absl::StrCat((rank + 1) % 3, "/", i), absl::Seconds(20)); !got.ok())
        return got.status();
    }
    return absl::OkStatus();
  });
  over = true;
  strangers.join();
  for (const absl::Status& status : ended) EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace zeroshard::comm

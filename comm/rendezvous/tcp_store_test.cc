#include "zeroshard/comm/rendezvous/tcp_store.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "zeroshard/comm/network_address.h"
#include "zeroshard/comm/rendezvous/greeting.h"
#include "zeroshard/comm/rendezvous/job_token.h"
#include "zeroshard/comm/rendezvous/roll.h"
#include "zeroshard/comm/rendezvous/service_address.h"
#include "zeroshard/comm/rendezvous/token_file.h"
#include "zeroshard/comm/rendezvous/values.h"
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

TEST_F(TcpStoreTest, NamesARankThatFallsSilentWithItsLastOperation) {
  // A rank whose store is opened and whose process then stands still cannot be had in a thread: a second is enough for one that
  // does not beat in time.
  Roll roll(4, absl::Seconds(1));
  const absl::Time now = absl::Now();
  for (const int rank : {0, 1, 2}) ASSERT_TRUE(roll.Come(rank, now).ok());
  EXPECT_EQ(roll.Missing(now), "rank 3 has not come");
  ASSERT_TRUE(roll.Come(3, now).ok());
  EXPECT_EQ(roll.Missing(now), "");
  LastOperation last;
  last.number = 41;
  last.kind = OpKind::kAllGather;
  last.dtype = device::DType::kFloat32;
  last.count = 1024;
  std::string("block.3").copy(last.label.data(), 7);
  for (const int rank : {0, 1, 3}) roll.Beat(rank, {}, now + absl::Seconds(2));
  roll.Beat(2, last, now);
  EXPECT_EQ(roll.Missing(now + absl::Seconds(2)),
            "rank 2 is missing (silent for 2s); its last operation was all-gather #41 'block.3' (fp32, 1024 elements)");
  roll.Lose(2, now + absl::Seconds(2));
  EXPECT_THAT(roll.Missing(now + absl::Seconds(2)), HasSubstr("rank 2 is missing (its process or its network ended 0 ago)"));
  roll.Leave(1, now);
  EXPECT_EQ(roll.Missing(now + absl::Seconds(2)).find("rank 1"), std::string::npos);
}

TEST(Values, AreBounded) {
  Values values;
  EXPECT_TRUE(values.Set("k", "v").ok());
  EXPECT_EQ(values.Set("", "v").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(values.Set(std::string(kMaxStoreKeyBytes + 1, 'k'), "v").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(values.Set("k", std::string(kMaxStoreValueBytes + 1, 'v')).code(), absl::StatusCode::kInvalidArgument);
  const std::string large(kMaxStoreValueBytes, 'v');
  absl::Status full;
  int64_t taken = 0;
  while ((full = values.Set(absl::StrCat("k", taken), large)).ok()) ++taken;
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_LE(taken * kMaxStoreValueBytes, Values::kMostBytes);
  EXPECT_TRUE(values.Set("k0", "small again").ok());
  EXPECT_TRUE(values.Set("k1", large).ok());
}

TEST(JobToken, IsRandomAndComparedWhole) {
  std::set<std::string> made;
  for (int i = 0; i < 100; ++i) made.insert(MakeJobToken().value());
  EXPECT_EQ(made.size(), 100U);
  EXPECT_EQ(made.begin()->size(), 32U);
  EXPECT_TRUE(SameToken(kToken, kToken));
  EXPECT_FALSE(SameToken(kToken, ""));
  EXPECT_FALSE(SameToken(kToken, std::string(kToken) + kToken));
  EXPECT_FALSE(SameToken(kToken, std::string(kToken).substr(1)));
  EXPECT_FALSE(SameToken("", "x"));
  for (const char* bad : {"short", "a token with spaces in it", "a-token-with-\x01-in-it"}) {
    EXPECT_EQ(CheckJobToken(bad).code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

TEST(TokenFile, IsItsUsersAloneAndGoneAtTheEnd) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/tokens.", getpid(), "/jobs/job");
  {
    const auto file = TokenFile::Leave(path, kToken);
    ASSERT_TRUE(file.ok()) << file.status();
    struct stat found;
    ASSERT_EQ(stat(path.c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777, 0600U);
    EXPECT_EQ(ReadTokenFile(path).value(), kToken);
    ASSERT_TRUE(TokenFile::Leave(path, "another-token-of-a-later-run").ok());
  }
  EXPECT_FALSE(ReadTokenFile(path).value().has_value());
  std::ofstream(path) << kToken;
  chmod(path.c_str(), 0644);
  EXPECT_THAT(Message(ReadTokenFile(path).status()), AllOf(HasSubstr(path), HasSubstr("chmod 600")));
  chmod(path.c_str(), 0600);
  EXPECT_EQ(ReadTokenFile(path).value(), kToken);
  std::ofstream(path) << "short";
  EXPECT_EQ(ReadTokenFile(path).status().code(), absl::StatusCode::kInvalidArgument);
  unlink(path.c_str());
  ASSERT_EQ(symlink("/etc/passwd", path.c_str()), 0);
  EXPECT_FALSE(ReadTokenFile(path).ok());
  unlink(path.c_str());
}

std::string Path(const LaunchEnvironment& launch, const std::map<std::string, std::string>& variables, int parent) {
  const auto path = TokenPath(
      launch,
      [&](const char* name) {
        const auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional<std::string>(found->second);
      },
      parent, "n:1");
  return path.ok() ? *path : Message(path.status());
}

TEST(TokenFile, LiesWhereAllRanksLook) {
  LaunchEnvironment slurm, alone, torchrun;
  slurm.world_size = alone.world_size = torchrun.world_size = 4;
  slurm.job_id = "77.0";
  alone.local_world_size = torchrun.local_world_size = 4;
  torchrun.job_id = "none";
  const std::map<std::string, std::string> home = {{"HOME", "/home/me"}, {"XDG_RUNTIME_DIR", "/run/user/1"}};
  EXPECT_EQ(Path(slurm, home, 7), "/home/me/.cache/zeroshard/jobs/77%2E0-n%3A1");
  EXPECT_EQ(Path(alone, home, 7), "/run/user/1/zeroshard/jobs/parent-7-n%3A1");
  EXPECT_EQ(Path(torchrun, home, 8), "/run/user/1/zeroshard/jobs/parent-8-n%3A1");
  EXPECT_EQ(Path(slurm, {{"XDG_CACHE_HOME", "/c"}}, 7), "/c/zeroshard/jobs/77%2E0-n%3A1");
  EXPECT_THAT(Path(slurm, {}, 7), HasSubstr("--token_file"));
}

std::vector<NetworkAddress> Host() {
  return {{.interface = "lo", .text = "127.0.0.1", .loopback = true},
          {.interface = "docker0", .text = "172.17.0.1"},
          {.interface = "eth0", .text = "10.0.0.3"},
          {.interface = "eth0", .text = "fd00::3", .family = AF_INET6}};
}

using Addresses = std::vector<std::string>;

Addresses Listening(const Addresses& resolved, const ListenNeed& need) {
  const auto chosen = ChooseListeningAddresses(Host(), resolved, {"node", 1}, need);
  return chosen.ok() ? *chosen : Addresses{Message(chosen.status())};
}

TEST(ServiceAddress, ListensNoWiderThanTheJobNeeds) {
  EXPECT_EQ(Listening({"127.0.0.1"}, {.single_host = true}), Addresses{"127.0.0.1"});
  EXPECT_EQ(Listening({"10.0.0.3"}, {.single_host = false}), Addresses{"10.0.0.3"});
  EXPECT_EQ(Listening({"fd00::3", "10.0.0.3"}, {.single_host = false}), (Addresses{"fd00::3", "10.0.0.3"}));
  EXPECT_EQ(Listening({"10.0.0.3"}, {.bind = "fd00::3"}), Addresses{"fd00::3"});
  EXPECT_EQ(Listening({"10.0.0.3"}, {.bind = "docker"}), Addresses{"172.17.0.1"});
  EXPECT_EQ(Listening({"127.0.0.1"}, {.single_host = true, .bind = "^lo,docker"}), Addresses{"10.0.0.3"});
}

TEST(ServiceAddress, IsReachedFromOtherHostsWhereTheHostsOwnNameIsLoopback) {
  const Addresses chosen = Listening({"127.0.1.1"}, {.single_host = false});
  ASSERT_EQ(chosen.size(), 2U);
  EXPECT_EQ(chosen[0], "127.0.1.1");  // for the ranks of rank 0's host
  EXPECT_THAT(chosen[1], Not(HasSubstr("127.")));
}

TEST(ServiceAddress, ListsWhatThereIsWhereNothingFits) {
  for (const ListenNeed& need : {ListenNeed{}, ListenNeed{.bind = "ib0"}, ListenNeed{.bind = "10.0.0.9"}}) {
    const Addresses chosen = Listening({"10.0.0.9"}, need);
    EXPECT_THAT(chosen[0], AllOf(HasSubstr("docker0 172.17.0.1"), HasSubstr("eth0 10.0.0.3"), HasSubstr("eth0 fd00::3")));
  }
}

}  // namespace
}  // namespace zeroshard::comm

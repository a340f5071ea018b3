// Strangers on the ports of UCX's TCP, while ranks connect and afterwards.
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "glog/logging.h"
#include "gtest/gtest.h"
#include "zeroshard/backends/ucx/sealed_value.h"
#include "zeroshard/backends/ucx/ucx_transport.h"
#include "zeroshard/backends/ucx/ucx_worker.h"
#include "zeroshard/comm/host_communicator.h"
#include "zeroshard/comm/network_address.h"
#include "zeroshard/comm/port_range.h"
#include "zeroshard/comm/socket.h"
#include "zeroshard/comm/store_memory.h"
#include "zeroshard/comm/testing/free_ports.h"
#include "zeroshard/comm/testing/strangers.h"
#include "zeroshard/device/cpu/cpu_device.h"

namespace zeroshard::backends {
namespace {

using comm::testing::ListeningPort;
using comm::testing::ListeningPorts;
using comm::testing::Strangers;

// A store in memory that holds up whoever publishes a worker's address.
class HeldStore final : public comm::Store {
 public:
  explicit HeldStore(std::function<void(const std::string& address)> published) : published_(std::move(published)) {}
  std::string Describe() const override { return store_.Describe(); }

 private:
  absl::Status DoSet(std::string_view key, std::string_view value) override {
    if (absl::StrContains(absl::string_view(key.data(), key.size()), "worker/")) published_(std::string(value));
    return store_.Set(key, value);
  }
  absl::StatusOr<std::optional<std::string>> DoTryGet(std::string_view key) override { return store_.TryGet(key); }
  absl::StatusOr<int64_t> DoAdd(std::string_view key, int64_t delta) override { return store_.Add(key, delta); }
  void DoPause(int /*round*/, absl::Duration limit) override { absl::SleepFor(std::min(limit, absl::Milliseconds(1))); }

  const std::function<void(const std::string& address)> published_;
  comm::MemoryStore store_;
};

class UcxStrangers : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("UCX_TLS", "tcp", 1); }

  // Two ranks connect, add up, and are gone.
  void ConnectAndAdd(comm::Store& store) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        const std::unique_ptr<device::Device> device = device::MakeCpuDevice();
        auto transport =
            UcxTransport::Connect({.store = &store, .rank = rank, .world_size = 2, .timeout = absl::Seconds(60)});
        ASSERT_TRUE(transport.ok()) << transport.status();
        auto made = comm::MakeHostCommunicator(*device, *std::move(transport), {.timeout = absl::Seconds(60)});
        ASSERT_TRUE(made.ok()) << made.status();
        const auto buffer = device->Allocate(4 * kElements, device::Use::kData, "x");
        const device::Array x = buffer->array(device::DType::kFloat32);
        auto* const host = static_cast<float*>(device->HostAddress(x));
        for (int round = 0; round < 50; ++round) {
          std::fill_n(host, kElements, static_cast<float>(rank + 1));
          ASSERT_TRUE((*made)->AllReduce(x, x, comm::ReduceOp::kSum).Wait().ok()) << (*made)->status();
          ASSERT_EQ(std::count(host, host + kElements, 3.0F), kElements);
        }
        if (rank == 0) AfterConnecting();
        ASSERT_TRUE((*made)->Finalize().ok());
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  virtual void AfterConnecting() {
    if (!comm::testing::MayDropConnections()) return;
    const std::set<ListeningPort> ports = ListeningPorts(getpid());
    EXPECT_GE(ports.size(), 2U);
    for (const ListeningPort& port : ports)
      EXPECT_FALSE(strangers_.Visit(port, 20)) << port.first << " port " << port.second;
  }

  static constexpr int64_t kElements = 5000;
  Strangers strangers_;
};

TEST_F(UcxStrangers, TenThousandWhileRanksConnectChangeNothingAndLaterOnesAreNotAnswered) {
  std::once_flag once;  // The other rank waits, too.
  HeldStore store([&](const std::string& /*address*/) {
    std::call_once(once, [&] {
      while (strangers_.visits() < 10000) {
        for (const ListeningPort& port : ListeningPorts(getpid())) {
          for (int i = 0; i < 100; ++i) strangers_.Visit(port);
        }
      }
    });
  });
  ConnectAndAdd(store);
  EXPECT_GT(strangers_.answered(), 5000);
}

// Silent ones, more than this process may have descriptors, which are held until it has ended.
TEST_F(UcxStrangers, WhoSaysNothingHoldsNoDescriptor) {
  constexpr int kDescriptors = 200;
  std::array<int, 2> ports, held;
  ASSERT_EQ(pipe(ports.data()), 0);
  ASSERT_EQ(pipe(held.data()), 0);
  const pid_t ranks = fork();
  ASSERT_GE(ranks, 0);
  if (ranks == 0) {
    const rlimit few = {.rlim_cur = kDescriptors, .rlim_max = kDescriptors};
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    std::atomic<int> listening{0};
    HeldStore store([&](const std::string& /*address*/) {
      if (++listening < 2) return;  // Both do now, and none has the other's address.
      std::string text;
      for (const ListeningPort& port : ListeningPorts(getpid())) absl::StrAppend(&text, port.first, " ", port.second, "\n");
      char byte = 0;
      CHECK_EQ(write(ports[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
      CHECK_EQ(read(held[0], &byte, 1), 1);
    });
    ConnectAndAdd(store);
    _exit(HasFailure() ? 1 : 0);
  }
  std::array<char, 4096> text = {};
  ASSERT_GT(read(ports[0], text.data(), text.size() - 1), 0);
  std::vector<comm::Socket> silent;
  for (const absl::string_view line : absl::StrSplit(text.data(), '\n', absl::SkipEmpty())) {
    const std::vector<std::string> port = absl::StrSplit(line, ' ');
    sockaddr_storage address;
    const socklen_t length = comm::MakeSocketAddress(port[0], std::stoi(port[1]), address);
    for (int i = 0; i < 2 * kDescriptors; ++i) {
      silent.emplace_back(socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
      EXPECT_EQ(connect(silent.back().get(), reinterpret_cast<sockaddr*>(&address), length), 0) << line;
    }
  }
  EXPECT_GE(silent.size(), 4U * kDescriptors);  // of both ranks
  ASSERT_EQ(write(held[1], "x", 1), 1);
  int status = -1;
  ASSERT_EQ(waitpid(ranks, &status, 0), ranks);
  EXPECT_EQ(status, 0);
}

// Who speaks as UCX does, and then stalls, or worse.
class UcxStallers : public UcxStrangers {
 protected:
  static constexpr uint64_t kMagic = 0xcafebabe12345678;  // what UCX's connections begin with
  static std::string Greeting() { return {reinterpret_cast<const char*>(&kMagic), sizeof(kMagic)}; }
  // And 1 byte that says what follows, and a length beyond all that UCX has room for, at which it ends its process.
  static std::string Poison() { return Greeting() + std::string(1, '\0') + std::string(4, '\xff'); }

  // From the address `from`, of IPv4, or from any where that is empty. Gives whether somebody answered; who says it stays.
  bool Say(const std::string& words, const ListeningPort& port, const std::string& from = "") {
    sockaddr_storage there, own;
    const socklen_t length = comm::MakeSocketAddress(port.first, port.second, there);
    comm::Socket socket(::socket(there.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (const socklen_t own_length = comm::MakeSocketAddress(from, 0, own); own_length != 0) {
      EXPECT_EQ(bind(socket.get(), reinterpret_cast<sockaddr*>(&own), own_length), 0) << from;
    }
    if (connect(socket.get(), reinterpret_cast<sockaddr*>(&there), length) != 0 && errno != EINPROGRESS) return false;
    pollfd entry = {.fd = socket.get(), .events = POLLOUT, .revents = 0};
    if (poll(&entry, 1, 100) != 1 || (entry.revents & (POLLERR | POLLHUP)) != 0) return false;
    EXPECT_EQ(send(socket.get(), words.data(), words.size(), MSG_NOSIGNAL), static_cast<ssize_t>(words.size()));
    fcntl(socket.get(), F_SETFL, 0);  // It waits from now on.
    const std::lock_guard<std::mutex> lock(mutex_);
    stalled_.push_back(std::move(socket));
    return true;
  }

  void AfterConnecting() override {
    for (const comm::Socket& socket : stalled_) {
      const timeval patience = {.tv_sec = 20, .tv_usec = 0};
      setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
      char byte = 0;
      EXPECT_EQ(recv(socket.get(), &byte, 1, 0), 0) << strerror(errno);
    }
    ended_ = true;
  }

  std::mutex mutex_;
  std::vector<comm::Socket> stalled_;
  bool ended_ = false;
};

TEST_F(UcxStallers, AreGoneOnceAllAreConnected) {
  std::once_flag once;
  HeldStore store([&](const std::string& /*address*/) {
    std::call_once(once, [&] {
      for (const ListeningPort& port : ListeningPorts(getpid())) {
        for (int i = 0; i < 10; ++i) EXPECT_TRUE(Say(Greeting(), port));
      }
    });
  });
  ConnectAndAdd(store);
  EXPECT_GE(stalled_.size(), 10U);
  EXPECT_TRUE(ended_);
}

// Somebody who knows at which port a worker will listen, and is there in the moment in which it does.
TEST_F(UcxStallers, ComeWhileAWorkerIsMade) {
  if (!comm::testing::MayDropConnections()) GTEST_SKIP() << "this machine lets nobody set filters";
  constexpr int kWorkers = 64;
  const comm::PortRange range = comm::testing::FreePorts(kWorkers, /*from=*/27000);
  std::atomic<int> port{range.first};
  std::thread stranger([&] {
    for (int at = port, last = 0; at <= range.last; at = port) {
      if (at != last && Say(Poison(), {"127.0.0.1", at})) last = at;
    }
  });
  for (; port <= range.last; ++port) {
    const auto worker =
        UcxWorker::Create(2, UcxWays::kAll, {.devices = "lo", .families = "inet", .port = port, .sources = {"127.0.0.8"}});
    ASSERT_TRUE(worker.ok()) << worker.status();
    for (int i = 0; i < 20; ++i) {
      (*worker)->Progress({}, 16);
      absl::SleepFor(absl::Microseconds(100));
    }
  }
  stranger.join();
}

TEST_F(UcxStallers, FromAnotherAddressThanRanksHaveAreNotHeard) {
  if (!comm::testing::MayDropConnections()) GTEST_SKIP() << "this machine lets nobody set filters";
  std::atomic<int> listening{0};
  HeldStore store([&](const std::string& /*address*/) {
    if (++listening < 2) return;  // Both do now, UCX alone.
    for (const ListeningPort& port : ListeningPorts(getpid())) {
      if (!absl::StrContains(port.first, '.')) continue;
      EXPECT_FALSE(Say(Poison(), port, "127.0.0.9")) << port.first << " " << port.second;
    }
  });
  ConnectAndAdd(store);
}

TEST_F(UcxStrangers, TheLimitOfDescriptorsIsAsBeforeOnceAllAreConnected) {
  rlimit before = {}, after = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  before.rlim_cur = std::min<rlim_t>(before.rlim_max, 500);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  HeldStore store([&](const std::string& /*address*/) {
    rlimit meanwhile = {};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &meanwhile), 0);
    EXPECT_EQ(meanwhile.rlim_cur, before.rlim_max);
  });
  ConnectAndAdd(store);
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(after.rlim_cur, before.rlim_cur);
}

TEST_F(UcxStrangers, AClientOfAnotherJobIsNotHeard) {
  const std::string words(500, 'x');
  std::vector<std::unique_ptr<UcxMessage>> messages;
  std::vector<std::shared_ptr<UcxWorker>> clients;  // Ends before what it sends.
  std::mutex mutex;
  HeldStore store([&](const std::string& sealed) {
    const auto address = OpenValue("address", 0, sealed);
    ASSERT_TRUE(address.ok()) << address.status();
    const std::lock_guard<std::mutex> lock(mutex);
    auto client = UcxWorker::Create(2, UcxWays::kAll);
    ASSERT_TRUE(client.ok()) << client.status();
    // What it cannot know is before the address: 8 bytes of the receiver's number.
    ASSERT_TRUE((*client)->Connect(0, address->substr(8)).ok());
    for (ucp_tag_t tag = 0; tag < 8; ++tag) {
      messages.push_back(std::make_unique<UcxMessage>());
      (*client)->Send(0, tag, words.data(), words.size(), *messages.back());
    }
    // It is a client of a UCX that does not move on by itself.
    for (int i = 0; i < 200; ++i) {
      (*client)->Progress(*messages.back(), 16);
      absl::SleepFor(absl::Microseconds(100));
    }
    (*client)->StopListening();
    clients.push_back(*std::move(client));
  });
  ConnectAndAdd(store);
  EXPECT_EQ(clients.size(), 2U);
}

}  // namespace
}  // namespace zeroshard::backends

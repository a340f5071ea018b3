// The ports at which UCX's ranks listen.
#include <stdlib.h>
#include <unistd.h>

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "zeroshard/backends/ucx/ucx_transport.h"
#include "zeroshard/comm/port_range.h"
#include "zeroshard/comm/store_memory.h"
#include "zeroshard/comm/testing/free_ports.h"
#include "zeroshard/comm/testing/strangers.h"

namespace zeroshard::backends {
namespace {

using comm::testing::FreePorts;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kFirst = 22000;  // other suites begin elsewhere

// How two ranks fare that connect over TCP at these ports, and where they listen meanwhile.
std::vector<absl::Status> Connect(const comm::PortRange& ports, std::set<int>& listening) {
  setenv("UCX_TLS", "tcp", 1);
  comm::MemoryStore store;
  std::mutex mutex;
  std::vector<absl::Status> ended(2);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      auto transport = UcxTransport::Connect(
          {.store = &store, .rank = rank, .world_size = 2, .timeout = absl::Seconds(60), .ports = ports});
      ended[static_cast<size_t>(rank)] = transport.status();
      const std::lock_guard<std::mutex> lock(mutex);
      for (const comm::testing::ListeningPort& port : comm::testing::ListeningPorts(getpid())) listening.insert(port.second);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  return ended;
}

TEST(UcxPorts, AreOfTheRangeThatIsGiven) {
  const comm::PortRange range = FreePorts(8, kFirst);
  std::set<int> listening;
  for (const absl::Status& status : Connect(range, listening)) EXPECT_TRUE(status.ok()) << status;
  EXPECT_GE(listening.size(), 1U);
  for (const int port : listening) EXPECT_TRUE(port >= range.first && port <= range.last) << port;
}

TEST(UcxPorts, ThatAreTakenArePassedOver) {
  const comm::PortRange range = FreePorts(8, kFirst);
  std::vector<comm::Socket> taken;
  // Left are two for each rank's line and UCX.
  for (int i = 0; i < 4; ++i) taken.push_back(*comm::ListenWithin("127.0.0.1", range));
  std::set<int> listening;
  for (const absl::Status& status : Connect(range, listening)) EXPECT_TRUE(status.ok()) << status;
}

TEST(UcxPorts, ThatAreAllTakenAreAnErrorWithTheRange) {
  const comm::PortRange range = FreePorts(2, kFirst);
  std::vector<comm::Socket> taken;
  for (int i = 0; i < 2; ++i) taken.push_back(*comm::ListenWithin("127.0.0.1", range));
  std::set<int> listening;
  for (const absl::Status& status : Connect(range, listening)) {
    EXPECT_TRUE(absl::IsAlreadyExists(status)) << status;
    EXPECT_THAT(status.message(), AllOf(HasSubstr("127.0.0.1"), HasSubstr(range.Describe())));
  }
}

// The ranks' lines have a port each; for UCX none is left.
TEST(UcxPorts, ThatAreTooFewForUcxAreAnErrorThatSaysSo) {
  const comm::PortRange range = FreePorts(1, kFirst);
  const comm::Socket taken = *comm::ListenWithin("127.0.0.1", range);
  const auto worker = UcxWorker::Create(2, UcxWays::kAll, {.devices = "lo", .port = range.first});
  EXPECT_TRUE(absl::IsAlreadyExists(worker.status())) << worker.status();
}

}  // namespace
}  // namespace zeroshard::backends

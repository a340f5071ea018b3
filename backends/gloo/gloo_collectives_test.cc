#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "zeroshard/backends/gloo/gloo_transport.h"
#include "zeroshard/comm/store_memory.h"
#include "zeroshard/comm/testing/collective_suite.h"
#include "zeroshard/device/cpu/cpu_device.h"
#include "zeroshard/device/late/late_device.h"

namespace zeroshard::comm::testing {
namespace {

// One for each group; communicators that are split from it meet in it too, for as long as the test runs.
MemoryStore& NewStore() {
  static std::deque<MemoryStore> stores;
  return stores.emplace_back();
}

// Ranks that are threads connect over TCP as processes do.
std::vector<std::unique_ptr<Communicator>> MakeGlooRanks(std::vector<device::Device*> devices, const HostOptions& options) {
  MemoryStore& store = NewStore();
  const int world_size = static_cast<int>(devices.size());
  std::vector<std::unique_ptr<Communicator>> ranks(devices.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      auto transport = backends::GlooTransport::Connect(
          {.store = &store, .rank = rank, .world_size = world_size, .timeout = absl::Seconds(30)});
      ASSERT_TRUE(transport.ok()) << transport.status();
      auto made = MakeHostCommunicator(*devices[static_cast<size_t>(rank)], *std::move(transport), options);
      ASSERT_TRUE(made.ok()) << made.status();
      ranks[static_cast<size_t>(rank)] = *std::move(made);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ranks;
}

std::vector<Backend> Backends() {
  return {{"GlooOnCpu", &MakeGlooRanks, [] { return device::MakeCpuDevice(); }},
          {"GlooOnLate", &MakeGlooRanks, [] { return device::MakeLateDevice(); }}};
}

INSTANTIATE_TEST_SUITE_P(Gloo, CollectiveTest, ::testing::ValuesIn(Backends()), BackendName);
INSTANTIATE_TEST_SUITE_P(Gloo, FailureTest, ::testing::ValuesIn(Backends()), BackendName);

}  // namespace
}  // namespace zeroshard::comm::testing

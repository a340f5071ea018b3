#include "zeroshard/backends/ucx/ucx_group.h"

#include <deque>
#include <thread>

#include "gtest/gtest.h"
#include "zeroshard/backends/ucx/ucx_transport.h"
#include "zeroshard/comm/store_memory.h"

namespace zeroshard::backends {
namespace {

// One for each group; communicators that are split from it meet in it too, for as long as the test runs.
comm::MemoryStore& NewStore() {
  static std::deque<comm::MemoryStore> stores;
  return stores.emplace_back();
}

}  // namespace

std::vector<std::unique_ptr<comm::Communicator>> MakeUcxRanks(std::vector<device::Device*> devices,
                                                              const comm::HostOptions& options) {
  comm::MemoryStore& store = NewStore();
  const int world_size = static_cast<int>(devices.size());
  std::vector<std::unique_ptr<comm::Communicator>> ranks(devices.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      auto transport =
          UcxTransport::Connect({.store = &store, .rank = rank, .world_size = world_size, .timeout = absl::Seconds(60)});
      ASSERT_TRUE(transport.ok()) << transport.status();
      auto made = comm::MakeHostCommunicator(*devices[static_cast<size_t>(rank)], *std::move(transport), options);
      ASSERT_TRUE(made.ok()) << made.status();
      ranks[static_cast<size_t>(rank)] = *std::move(made);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ranks;
}

}  // namespace zeroshard::backends

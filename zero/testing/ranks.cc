#include "zeroshard/zero/testing/ranks.h"

#include <gtest/gtest.h>

#include <thread>

#include "zeroshard/comm/backend_registry.h"
#include "zeroshard/comm/store_memory.h"
#include "zeroshard/device/cpu/cpu_device.h"

namespace zeroshard::zero::testing {

void RunOnRanks(const RankOptions& options, const std::function<void(comm::Communicator& communicator)>& rank) {
  std::vector<std::unique_ptr<device::Device>> devices;
  std::vector<device::Device*> pointers;
  for (int r = 0; r < options.world_size; ++r) {
    devices.push_back(options.make_device ? options.make_device() : device::MakeCpuDevice());
    pointers.push_back(devices.back().get());
  }
  std::vector<std::unique_ptr<comm::Communicator>> group(options.world_size);
  if (options.backend_name.empty()) {
    auto made = backends::MakeInProcessGroup(pointers, options.backend);
    ASSERT_TRUE(made.ok()) << made.status();
    group = *std::move(made);
  }
  comm::MemoryStore store;
  std::vector<std::thread> threads;
  for (int r = 0; r < options.world_size; ++r) {
    threads.emplace_back([&, r, communicator = std::move(group[r])]() mutable {
      if (communicator == nullptr) {
        comm::BackendOptions backend;
        backend.device = pointers[r];
        backend.store = &store;
        backend.rank = r;
        backend.world_size = options.world_size;
        backend.scratch_bytes = kScratchBytes;
        auto made = comm::CreateCommunicator(options.backend_name, backend);
        ASSERT_TRUE(made.ok()) << made.status();
        communicator = *std::move(made);
      }
      rank(*communicator);
      // A rank that leaves while others are at their last operation would disturb them.
      communicator->Finalize().IgnoreError();
      communicator.reset();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace zeroshard::zero::testing

#include "zeroshard/zero/testing/ranks.h"

#include <gtest/gtest.h>

#include <thread>

#include "zeroshard/device/cpu/cpu_device.h"

namespace zeroshard::zero::testing {

void RunOnRanks(const RankOptions& options, const std::function<void(comm::Communicator& communicator)>& rank) {
  std::vector<std::unique_ptr<device::Device>> devices;
  std::vector<device::Device*> pointers;
  for (int r = 0; r < options.world_size; ++r) {
    devices.push_back(options.make_device ? options.make_device() : device::MakeCpuDevice());
    pointers.push_back(devices.back().get());
  }
  auto group = backends::MakeInProcessGroup(pointers, options.backend);
  ASSERT_TRUE(group.ok()) << group.status();
  std::vector<std::thread> threads;
  for (int r = 0; r < options.world_size; ++r) {
    threads.emplace_back([&rank, communicator = std::move((*group)[r])]() mutable {
      rank(*communicator);
      communicator.reset();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace zeroshard::zero::testing

#include "zeroshard/backends/in_process/in_process.h"

#include <thread>

#include "gtest/gtest.h"
#include "zeroshard/device/cpu/cpu_device.h"

namespace zeroshard::backends {
namespace {

using comm::ReduceOp;
using device::DType;

TEST(InProcess, AllReducesOnThreeRanks) {
  std::vector<std::unique_ptr<device::Device>> owned;
  std::vector<device::Device*> devices;
  for (int r = 0; r < 3; ++r) {
    owned.push_back(device::MakeCpuDevice());
    devices.push_back(owned.back().get());
  }
  auto ranks = MakeInProcessGroup(devices);
  ASSERT_TRUE(ranks.ok()) << ranks.status();
  std::vector<std::thread> threads;
  for (int r = 0; r < 3; ++r) {
    threads.emplace_back([&, r] {
      auto buffer = devices[static_cast<size_t>(r)]->Allocate(4 * 1000, device::Use::kData, "x");
      const device::Array x = buffer->array(DType::kFloat32);
      float* host = static_cast<float*>(devices[static_cast<size_t>(r)]->HostAddress(x));
      for (int i = 0; i < 1000; ++i) host[i] = static_cast<float>(i + r);
      for (int k = 0; k < 10; ++k) {
        ASSERT_TRUE((*ranks)[static_cast<size_t>(r)]->AllReduce(x, x, ReduceOp::kAverage, {.wait_at_once = k % 2 == 0}).Wait().ok());
      }
      for (int i = 0; i < 1000; ++i) ASSERT_EQ(host[i], static_cast<float>(i + 1));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace zeroshard::backends

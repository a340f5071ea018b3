// On device/late: each wait that a collective's users and the communicator make is needed, and one left out is caught.

#include "zeroshard/comm/testing/late_waits.h"

#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "zeroshard/backends/in_process/in_process.h"
#include "zeroshard/device/late/late_device.h"

namespace zeroshard::backends {
namespace {

TEST(LateWaits, EachOfACollectivesIsMissedWhereItIsLeftOut) {
  comm::testing::ExpectEachWaitIsNeeded([](const device::WaitPoint* left_out) {
    std::vector<std::unique_ptr<device::LateDevice>> owned;
    std::vector<device::Device*> devices;
    for (int r = 0; r < 2; ++r) {
      owned.push_back(device::MakeLateDevice());
      devices.push_back(owned.back().get());
    }
    if (left_out != nullptr) owned[0]->LeaveOutWait(*left_out);
    const auto ranks = *MakeInProcessGroup(devices);
    std::vector<std::thread> threads;
    for (const auto& rank : ranks) threads.emplace_back([&rank] { comm::testing::ReduceComputeGather(*rank); });
    for (std::thread& thread : threads) thread.join();
    return owned[0]->waits();
  });
}

}  // namespace
}  // namespace zeroshard::backends

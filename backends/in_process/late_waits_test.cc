// On device/late: each wait that a collective's users and the communicator make is needed, and one left out is caught.

#include <thread>

#include "gtest/gtest.h"
#include "zeroshard/backends/in_process/in_process.h"
#include "zeroshard/device/late/end_test.h"
#include "zeroshard/device/late/late_device.h"

namespace zeroshard::backends {
namespace {

using device::Array;
using device::DType;
using device::WaitPoint;

// Computes, reduces, computes on the result, gathers it, computes again; all ordered by events. Gives the first rank's waits.
std::vector<WaitPoint> Step(const WaitPoint* left_out) {
  std::vector<std::unique_ptr<device::LateDevice>> owned;
  std::vector<device::Device*> devices;
  for (int r = 0; r < 2; ++r) {
    owned.push_back(device::MakeLateDevice());
    devices.push_back(owned.back().get());
  }
  if (left_out != nullptr) owned[0]->LeaveOutWait(*left_out);
  auto ranks = *MakeInProcessGroup(devices);
  std::vector<std::thread> threads;
  for (size_t r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      device::Device& device = *devices[r];
      comm::Communicator& rank = *ranks[r];
      const auto compute = device.MakeStream(device::StreamKind::kCompute);
      const auto ready = device.MakeEvent();
      const auto whole = device.Allocate(4 * 2000, device::Use::kData, "whole");
      const auto shard = device.Allocate(4 * 1000, device::Use::kData, "shard");
      const Array x = whole->array(DType::kFloat32);
      const Array y = shard->array(DType::kFloat32);
      device.elementwise().Fill(*compute, x, 1.0);
      compute->Record(*ready);
      comm::Work reduced = rank.ReduceScatter(x, y, comm::ReduceOp::kSum, {.after = {ready.get()}});
      reduced.WaitOn(*compute);
      device.elementwise().Scale(*compute, y, 0.5);
      compute->Record(*ready);
      comm::Work gathered = rank.AllGather(y, x, {.after = {ready.get()}});
      gathered.WaitOn(*compute);
      float last = 0;
      device.elementwise().Scale(*compute, x, 3);
      device.CopyToHost(*compute, x.Slice(1999, 1), &last);
      compute->Synchronize();
      EXPECT_EQ(last, 3);
      EXPECT_TRUE(reduced.Wait().ok() && gathered.Wait().ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  return owned[0]->waits();
}

TEST(LateWaits, EachOfACollectivesIsMissedWhereItIsLeftOut) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::vector<WaitPoint> waits = Step(nullptr);
  EXPECT_EQ(waits.size(), 4u);  // Of each collective: the communicator for its input, the caller for its end.
  for (const WaitPoint& point : waits) {
    EXPECT_EXIT(
        {
          Step(&point);
          std::exit(0);
        },
        ::testing::ExitedWithCode(device::kLateExitCode), "late device: ")
        << "stream " << point.stream << ", wait " << point.index;
  }
}

}  // namespace
}  // namespace zeroshard::backends

#include "zeroshard/comm/testing/late_waits.h"

#include <cstdlib>

#include "gtest/gtest.h"
#include "zeroshard/device/late/end_test.h"

namespace zeroshard::comm::testing {

using device::Array;
using device::DType;
using device::WaitPoint;

void ReduceComputeGather(Communicator& rank) {
  device::Device& device = rank.device();
  const auto compute = device.MakeStream(device::StreamKind::kCompute);
  const auto ready = device.MakeEvent();
  const auto whole = rank.Allocate(4 * 2000, device::Use::kData, "whole");
  const auto shard = rank.Allocate(4 * 1000, device::Use::kData, "shard");
  const Array x = whole->array(DType::kFloat32);
  const Array y = shard->array(DType::kFloat32);
  device.elementwise().Fill(*compute, x, 1.0);
  compute->Record(*ready);
  Work reduced = rank.ReduceScatter(x, y, ReduceOp::kSum, {.after = {ready.get()}});
  reduced.WaitOn(*compute);
  device.elementwise().Scale(*compute, y, 0.5);
  compute->Record(*ready);
  Work gathered = rank.AllGather(y, x, {.after = {ready.get()}});
  gathered.WaitOn(*compute);
  float last = 0;
  device.elementwise().Scale(*compute, x, 3);
  device.CopyToHost(*compute, x.Slice(1999, 1), &last);
  compute->Synchronize();
  EXPECT_EQ(last, 3);
  EXPECT_TRUE(reduced.Wait().ok() && gathered.Wait().ok());
}

void ExpectEachWaitIsNeeded(const StepWithout& step) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::vector<WaitPoint> waits = step(nullptr);
  EXPECT_EQ(waits.size(), 4u);  // Of each collective: the communicator for its input, the caller for its end.
  for (const WaitPoint& point : waits) {
    EXPECT_EXIT(
        {
          step(&point);
          std::exit(0);
        },
        ::testing::ExitedWithCode(device::kLateExitCode), "late device: ")
        << "stream " << point.stream << ", wait " << point.index;
  }
}

}  // namespace zeroshard::comm::testing

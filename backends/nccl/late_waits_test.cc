// On doubles: each wait that a collective's users and the communicator make is needed, and one left out is caught.

#include <cstdlib>
#include <vector>

#include "gtest/gtest.h"
#include "zeroshard/backends/nccl/testing/nccl_group.h"
#include "zeroshard/device/cuda/doubles/control.h"
#include "zeroshard/device/late/end_test.h"

namespace zeroshard::backends {
namespace {

using comm::ReduceOp;
using device::Array;
using device::DType;
using device::WaitPoint;

// Computes, reduces, computes on the result, gathers it, computes again; all ordered by events. Gives the first rank's waits.
std::vector<WaitPoint> Step(const WaitPoint* left_out) {
  if (left_out != nullptr) device::cuda::doubles::LeaveOutWait(0, *left_out);
  testing::NcclGroup group(2);
  group.Run([](comm::Communicator& rank) {
    device::Device& device = rank.device();
    const auto compute = device.MakeStream(device::StreamKind::kCompute);
    const auto ready = device.MakeEvent();
    const auto whole = rank.Allocate(4 * 2000, device::Use::kData, "whole");
    const auto shard = rank.Allocate(4 * 1000, device::Use::kData, "shard");
    const Array x = whole->array(DType::kFloat32);
    const Array y = shard->array(DType::kFloat32);
    device.elementwise().Fill(*compute, x, 1.0);
    compute->Record(*ready);
    comm::Work reduced = rank.ReduceScatter(x, y, ReduceOp::kSum, {.after = {ready.get()}});
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
  return device::cuda::doubles::Waits(0);
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

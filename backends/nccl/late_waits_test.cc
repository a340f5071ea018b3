// On doubles: each wait that a collective's users and the communicator make is needed, and one left out is caught.

#include "zeroshard/comm/testing/late_waits.h"

#include <vector>

#include "gtest/gtest.h"
#include "zeroshard/backends/nccl/testing/nccl_group.h"
#include "zeroshard/device/cuda/doubles/control.h"

namespace zeroshard::backends {
namespace {

TEST(LateWaits, EachOfACollectivesIsMissedWhereItIsLeftOut) {
  comm::testing::ExpectEachWaitIsNeeded([](const device::WaitPoint* left_out) {
    if (left_out != nullptr) device::cuda::doubles::LeaveOutWait(0, *left_out);
    testing::NcclGroup group(2);
    group.Run(comm::testing::ReduceComputeGather);
    return device::cuda::doubles::Waits(0);
  });
}

}  // namespace
}  // namespace zeroshard::backends

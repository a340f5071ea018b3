#include <vector>

#include "gtest/gtest.h"
#include "zeroshard/backends/ucx/ucx_group.h"
#include "zeroshard/comm/testing/collective_suite.h"
#include "zeroshard/device/cpu/cpu_device.h"
#include "zeroshard/device/late/late_device.h"

namespace zeroshard::comm::testing {
namespace {

std::vector<Backend> Backends() {
  return {{"UcxOnCpu", &backends::MakeUcxRanks, [] { return device::MakeCpuDevice(); }},
          {"UcxOnLate", &backends::MakeUcxRanks, [] { return device::MakeLateDevice(); }}};
}

INSTANTIATE_TEST_SUITE_P(Ucx, CollectiveTest, ::testing::ValuesIn(Backends()), BackendName);
INSTANTIATE_TEST_SUITE_P(Ucx, FailureTest, ::testing::ValuesIn(Backends()), BackendName);

}  // namespace
}  // namespace zeroshard::comm::testing

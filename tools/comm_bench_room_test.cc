// That what comm_bench predicts before it starts ranks is what they hold, over every backend that is linked in, to the byte.
#include "zeroshard/tools/comm_bench_room.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "zeroshard/comm/backend_registry.h"
#include "zeroshard/device/device_needs.h"
#include "zeroshard/device/late/test_devices.h"
#include "zeroshard/tools/comm_bench_case.h"
#include "zeroshard/zero/testing/ranks.h"

namespace zeroshard::tools {
namespace {

using device::Use;

class CommBenchRoomTest : public ::testing::TestWithParam<device::TestDevice> {};

TEST_P(CommBenchRoomTest, PredictsWhatTheLargestCaseHoldsInEveryWorld) {
  constexpr int64_t kLargest = 1000;
  const bool opaque = GetParam().name != std::string("cpu");
  ASSERT_GE(comm::Backends().size(), 3u);
  for (const std::string& backend : comm::Backends()) {
    const auto communicator = [&](int ranks) {
      return comm::MemoryOf(backend, {.world_size = ranks, .opaque = opaque, .scratch_bytes = zero::testing::kScratchBytes});
    };
    for (const int world_size : {1, 2, 3, 4}) {
      for (const bool in_place : {true, false}) {
        CommBenchOptions options;
        options.ops = {comm::OpKind::kBarrier, comm::OpKind::kReduceScatter, comm::OpKind::kAllReduce};
        options.sizes = {4, kLargest};
        options.in_place = in_place;
        device::MemoryLedger before;
        PredictBench(options,
                     {.world_size = world_size, .communicator = communicator, .device = device::NeedsOf(GetParam().name)},
                     before);
        zero::testing::RunOnRanks({.world_size = world_size, .backend_name = backend, .make_device = GetParam().make},
                                  [&](comm::Communicator& ranks) {
                                    SCOPED_TRACE(absl::StrCat(backend, ", rank ", ranks.rank(), " of ", world_size));
                                    int64_t most = 0;
                                    for (const comm::OpKind op : options.ops) {
                                      const auto bench = CommBenchCase::Create(ranks, options, op, kLargest);
                                      ASSERT_TRUE(bench.ok()) << bench.status();
                                      most = std::max(most, ranks.device().ledger().now(Use::kCommunication));
                                    }
                                    EXPECT_EQ(most, before.predicted(Use::kCommunication));
                                  });
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, CommBenchRoomTest, ::testing::ValuesIn(device::TestDevices()), device::NameOfTestDevice);

}  // namespace
}  // namespace zeroshard::tools

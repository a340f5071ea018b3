// What survivors of an injected fault are told, and when.

#include "zeroshard/backends/in_process/faults.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "zeroshard/backends/in_process/in_process.h"
#include "zeroshard/backends/in_process/in_process_transport.h"
#include "zeroshard/comm/testing/other_group_case.h"
#include "zeroshard/device/cpu/cpu_device.h"

namespace zeroshard::backends {
namespace {

using device::Array;
using device::DType;
using std::chrono::steady_clock;

struct Outcome {
  std::vector<absl::Status> told;  // of each rank
  std::vector<float> first;        // its x[0] in the end
  steady_clock::duration took;
};

// Every rank adds up its rank + 1 over all, again and again, until it fails or has done `rounds`.
Outcome SumUntilTold(int world_size, const InProcessOptions& options, int rounds) {
  std::vector<std::unique_ptr<device::Device>> owned;
  std::vector<device::Device*> devices;
  for (int r = 0; r < world_size; ++r) {
    owned.push_back(device::MakeCpuDevice());
    devices.push_back(owned.back().get());
  }
  auto ranks = *MakeInProcessGroup(devices, options);
  Outcome outcome;
  outcome.told.resize(static_cast<size_t>(world_size));
  outcome.first.resize(static_cast<size_t>(world_size));
  const auto begin = steady_clock::now();
  std::vector<std::thread> threads;
  for (size_t r = 0; r < ranks.size(); ++r) {
    threads.emplace_back([&, r] {
      const auto buffer = devices[r]->Allocate(4 * 3000, device::Use::kData, "x");
      const Array x = buffer->array(DType::kFloat32);
      float* host = static_cast<float*>(devices[r]->HostAddress(x));
      for (int i = 0; i < rounds && outcome.told[r].ok(); ++i) {
        std::fill(host, host + 3000, static_cast<float>(r + 1));
        outcome.told[r] = ranks[r]->AllReduce(x, x, comm::ReduceOp::kSum, {.label = "sum"}).Wait();
      }
      outcome.first[r] = host[0];
    });
  }
  for (std::thread& thread : threads) thread.join();
  outcome.took = steady_clock::now() - begin;
  return outcome;
}

class FaultsTest : public ::testing::TestWithParam<bool> {
 protected:
  InProcessOptions Options(absl::Duration timeout) const {
    InProcessOptions options;
    options.mapped = GetParam();
    options.host.timeout = timeout;
    return options;
  }
};

TEST_P(FaultsTest, NamesADeadRankAtOnce) {
  for (int at = 0; at < 40; ++at) {
    InProcessOptions options = Options(absl::Seconds(60));
    options.faults = {.victim = at % 4, .fate = Fate::kDeath, .at_send = at};
    const Outcome outcome = SumUntilTold(4, options, 100);
    for (int r = 0; r < 4; ++r) {
      const absl::Status& told = outcome.told[static_cast<size_t>(r)];
      EXPECT_TRUE(absl::IsUnavailable(told)) << told;
      EXPECT_TRUE(absl::StrContains(told.message(), absl::StrCat("rank ", at % 4))) << told;
    }
    // Who was in the middle of an operation says which.
    EXPECT_TRUE(std::any_of(outcome.told.begin(), outcome.told.end(), [](const absl::Status& told) {
      return absl::StrContains(told.message(), "all-reduce #") && absl::StrContains(told.message(), "'sum'");
    })) << outcome.told[0];
    EXPECT_LT(outcome.took, std::chrono::seconds(5));
  }
}

TEST_P(FaultsTest, NamesAFrozenRankWithinTheDeadlineWhoeverWaitsForIt) {
  for (const auto schedules : {comm::ScheduleChoice::kDirect, comm::ScheduleChoice::kHalving}) {
    InProcessOptions options = Options(absl::Milliseconds(300));
    options.host.schedules = schedules;
    options.faults = {.victim = 4, .fate = Fate::kFreeze, .at_send = 30, .freeze_for = absl::Seconds(1)};
    const Outcome outcome = SumUntilTold(6, options, 100);
    for (const int r : {0, 1, 2, 3, 5}) {
      const absl::Status& told = outcome.told[static_cast<size_t>(r)];
      EXPECT_TRUE(absl::StrContains(told.message(), "rank 4 does not answer: it stands still")) << told;
    }
    EXPECT_FALSE(outcome.told[4].ok());
    EXPECT_LT(outcome.took, std::chrono::seconds(5));
  }
}

TEST_P(FaultsTest, GoesOnWhenAFrozenRankThawsInTime) {
  InProcessOptions options = Options(absl::Seconds(30));
  options.faults = {.victim = 1, .fate = Fate::kFreeze, .at_send = 30, .freeze_for = absl::Milliseconds(200)};
  const Outcome outcome = SumUntilTold(3, options, 20);
  for (const absl::Status& told : outcome.told) EXPECT_TRUE(told.ok()) << told;
  for (const float first : outcome.first) EXPECT_EQ(first, 6);
}

TEST_P(FaultsTest, NamesWhoDidNotSendWhenMessagesAreLost) {
  InProcessOptions options = Options(absl::Milliseconds(300));
  options.faults = {.seed = 3, .loss = 0.02};
  const Outcome outcome = SumUntilTold(3, options, 1000);
  for (size_t r = 0; r < 3; ++r) {
    EXPECT_FALSE(outcome.told[r].ok());
    EXPECT_TRUE(absl::StrContains(outcome.told[r].message(), "before the deadline")) << outcome.told[r];
    EXPECT_TRUE(absl::StrContains(outcome.told[r].message(), "all-reduce #")) << outcome.told[r];
  }
}

TEST_P(FaultsTest, ALateRankNamesItsOtherGroup) {
  auto group = std::make_shared<InProcessGroup>(3, GetParam(), Faults());
  comm::testing::ExpectALateRankNamesItsOtherGroup(
      group->endpoint(1).waits(),
      [&](int rank) -> absl::StatusOr<std::unique_ptr<comm::Transport>> { return MakeInProcessTransport(group, rank); });
}

INSTANTIATE_TEST_SUITE_P(InProcess, FaultsTest, ::testing::Bool(),
                         [](const ::testing::TestParamInfo<bool>& mapped) { return mapped.param ? "Mapped" : "Messages"; });

}  // namespace
}  // namespace zeroshard::backends

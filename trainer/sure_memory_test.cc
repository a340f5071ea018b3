// That SureMemory is what a rank's ledgers hold once its run is there, over every backend that is linked in: to the byte, and of activations
// no more.
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "zeroshard/comm/backend_registry.h"
#include "zeroshard/device/device_registry.h"
#include "zeroshard/device/late/test_devices.h"
#include "zeroshard/trainer/memory_room.h"
#include "zeroshard/trainer/testing/small_run.h"
#include "zeroshard/zero/testing/ranks.h"

namespace zeroshard::trainer {
namespace {

using device::Use;

void ExpectLines(const std::array<LedgerLine, device::kUses>& sure, const device::MemoryLedger& ledger) {
  for (int u = 0; u < device::kUses; ++u) {
    const Use use = static_cast<Use>(u);
    const int64_t bytes = sure[static_cast<size_t>(u)].now;
    if (use == Use::kActivations) {
      EXPECT_LE(bytes, ledger.now(use));
    } else {
      EXPECT_EQ(bytes, ledger.now(use)) << device::Name(use);
    }
  }
}

class SureMemoryTest : public ::testing::TestWithParam<std::tuple<device::TestDevice, int>> {
 protected:
  // As tools:train has them.
  static Surroundings Around(const std::string& backend, int world_size) {
    const std::string device = std::get<0>(GetParam()).name;
    const comm::MemoryRequest request{.opaque = device != "cpu", .scratch_bytes = zero::testing::kScratchBytes};
    const auto communicator = [backend, request](int ranks) {
      comm::MemoryRequest of_ranks = request;
      of_ranks.world_size = ranks;
      return comm::MemoryOf(backend, of_ranks);
    };
    return {.world_size = world_size, .communicator = communicator, .device_bytes = device::DeviceOwnBytes(device)};
  }

  static void ExpectSure(const RunOptions& options, const std::string& backend, int world_size) {
    const zero::testing::RankOptions ranks{
        .world_size = world_size, .backend_name = backend, .make_device = std::get<0>(GetParam()).make};
    zero::testing::RunOnRanks(ranks, [&](comm::Communicator& communicator) {
      SCOPED_TRACE(absl::StrCat(backend, ", rank ", communicator.rank(), " of ", world_size));
      const auto sure = SureMemory(options, Around(backend, world_size), communicator.rank());
      ASSERT_TRUE(sure.ok()) << sure.status();
      const auto run = testing::StartSmallRun(communicator, options);
      ASSERT_NE(run, nullptr);
      ExpectLines(sure->ledger, communicator.device().ledger());
      ExpectLines(sure->host_ledger, communicator.device().host().ledger());
    });
  }
};

TEST_P(SureMemoryTest, IsWhatLedgersHoldInEveryWorld) {
  const int stage = std::get<1>(GetParam());
  RunOptions options = testing::SmallRun(stage, /*rows=*/4);
  options.engine.dtype = device::DType::kBfloat16;
  ASSERT_GE(comm::Backends().size(), 3u);
  for (const std::string& backend : comm::Backends()) {
    for (const int world_size : {1, 2, 3, 4}) ExpectSure(options, backend, world_size);
    options.engine.accumulation = 2;
    ExpectSure(options, backend, 2);
    options.engine.accumulation = 1;
  }
}

TEST_P(SureMemoryTest, IsThatOfGroupsAndOfOffloadedStateToo) {
  const int stage = std::get<1>(GetParam());
  if (stage == 0) return;
  for (const std::string& backend : comm::Backends()) {
    for (const int shard_size : {1, 2}) {
      RunOptions options = testing::SmallRun(stage, /*rows=*/4);
      options.engine.shard_size = shard_size;
      ExpectSure(options, backend, 4);
    }
    RunOptions options = testing::SmallRun(stage, /*rows=*/3);
    options.engine.offload_optimizer.target = zero::OffloadTarget::kHost;
    options.model.checkpoint_every = 1;
    options.model.checkpoints_on_host = true;
    ExpectSure(options, backend, 2);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, SureMemoryTest,
                         ::testing::Combine(::testing::ValuesIn(device::TestDevices()), ::testing::Range(0, 4)),
                         [](const auto& which) {
                           return absl::StrCat(std::get<0>(which.param).name, "Stage", std::get<1>(which.param));
                         });

}  // namespace
}  // namespace zeroshard::trainer

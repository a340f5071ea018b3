// Ranks that meet in a store, through the registry.

#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "zeroshard/comm/backend_registry.h"
#include "zeroshard/comm/store_memory.h"
#include "zeroshard/device/cpu/cpu_device.h"

namespace zeroshard::backends {
namespace {

absl::StatusOr<std::unique_ptr<comm::Communicator>> Join(device::Device& device, comm::Store& store, int rank,
                                                         int world_size, absl::Duration timeout = absl::Seconds(20)) {
  return comm::CreateCommunicator(
      "in_process", {.device = &device, .store = &store, .rank = rank, .world_size = world_size, .timeout = timeout});
}

TEST(Join, MakesOneGroupAfterAnotherInOneStore) {
  comm::MemoryStore store;
  std::vector<std::thread> threads;
  for (int r = 0; r < 3; ++r) {
    threads.emplace_back([&store, r] {
      const auto device = device::MakeCpuDevice();
      for (int round = 0; round < 3; ++round) {
        auto rank = Join(*device, store, r, 3);
        ASSERT_TRUE(rank.ok()) << rank.status();
        EXPECT_EQ((*rank)->rank(), r);
        EXPECT_TRUE((*rank)->Barrier().Wait().ok());
        EXPECT_TRUE((*rank)->Finalize().ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Join, RefusesRanksThatDisagreeOnTheWorldSize) {
  comm::MemoryStore store;
  const auto device = device::MakeCpuDevice();
  ASSERT_TRUE(Join(*device, store, 0, 2).ok());
  const absl::Status told = Join(*device, store, 1, 3).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(told));
  EXPECT_TRUE(absl::StrContains(told.message(), "this rank's world size is 3, rank 0's is 2")) << told;
}

TEST(Join, RefusesAnotherProcesssGroup) {
  comm::MemoryStore store;
  ASSERT_TRUE(store.Set("in_process/group/1", "1 0").ok());
  const auto device = device::MakeCpuDevice();
  const absl::Status told = Join(*device, store, 1, 2).status();
  EXPECT_TRUE(absl::StrContains(told.message(), "rank 0 is process 1")) << told;
}

TEST(Join, SaysThatRankZeroNeverCame) {
  comm::MemoryStore store;
  const auto device = device::MakeCpuDevice();
  const absl::Status told = Join(*device, store, 1, 2, absl::Milliseconds(100)).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(told)) << told;
}

}  // namespace
}  // namespace zeroshard::backends

#include <atomic>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "zeroshard/backends/nccl/testing/nccl_group.h"
#include "zeroshard/comm/store_memory.h"
#include "zeroshard/comm/testing/collective_suite.h"
#include "zeroshard/device/cuda/doubles/control.h"

namespace zeroshard::comm::testing {
namespace {

// One for each group; it outlives the communicators.
MemoryStore& NewStore() {
  static std::deque<MemoryStore> stores;
  return stores.emplace_back();
}

std::vector<std::unique_ptr<Communicator>> MakeNcclRanks(const std::vector<device::Device*>& devices,
                                                         const HostOptions& options) {
  std::vector<std::unique_ptr<Communicator>> ranks;
  // Ranks are dropped one after the other.
  const backends::NcclOptions nccl{
      .timeout = options.timeout, .scratch_bytes = options.scratch_bytes, .leave_patience = absl::ZeroDuration()};
  for (auto& rank : backends::testing::JoinRanks(devices, NewStore(), nccl)) {
    EXPECT_TRUE(rank.ok()) << rank.status();
    ranks.push_back(*std::move(rank));
  }
  return ranks;
}

// Ranks of a group are on different devices.
Backend OnDoubles(std::string name, device::LateOptions order) {
  return {.name = std::move(name),
          .make_ranks = &MakeNcclRanks,
          .make_device =
              [order] {
                static std::atomic<int> next{0};
                device::cuda::doubles::SetOrder(order);
                return backends::testing::DoubleDevice(next++ % 8);
              },
          .most_ranks = 3};
}

INSTANTIATE_TEST_SUITE_P(Nccl, CollectiveTest,
                         ::testing::Values(OnDoubles("Lazy", {.order = device::LateOrder::kLazy}),
                                           OnDoubles("Random", {.order = device::LateOrder::kRandom, .seed = 5})),
                         BackendName);
INSTANTIATE_TEST_SUITE_P(Nccl, FailureTest, ::testing::Values(OnDoubles("Lazy", {.order = device::LateOrder::kLazy})),
                         BackendName);

}  // namespace
}  // namespace zeroshard::comm::testing

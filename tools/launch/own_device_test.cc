#include "zeroshard/tools/launch/own_device.h"

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "zeroshard/comm/store_memory.h"

namespace zeroshard::tools {
namespace {

std::vector<absl::Status> Check(const std::vector<std::string>& identities) {
  comm::MemoryStore store;
  std::vector<absl::Status> told(identities.size());
  std::vector<std::thread> ranks;
  for (size_t r = 0; r < identities.size(); ++r) {
    ranks.emplace_back([&, r] {
      told[r] = CheckOwnDevice(store, {.identity = identities[r],
                                       .rank = static_cast<int>(r),
                                       .world_size = static_cast<int>(identities.size()),
                                       .timeout = absl::Seconds(30)});
    });
  }
  for (std::thread& rank : ranks) rank.join();
  return told;
}

TEST(OwnDevice, RefusesTwoRanksOnOneAndTellsAll) {
  for (const absl::Status& told : Check({"GPU-1", "GPU-2", "GPU-1"})) {
    EXPECT_TRUE(absl::IsInvalidArgument(told)) << told;
    EXPECT_TRUE(absl::StrContains(told.message(), "ranks 0 and 2 are on one GPU (host ")) << told;
    EXPECT_TRUE(absl::StrContains(told.message(), "GPU-1): start one rank for each GPU, or take --share_gpu")) << told;
  }
}

TEST(OwnDevice, LetsEachHaveItsOwnAndCoresBeShared) {
  for (const absl::Status& told : Check({"GPU-1", "GPU-2"})) EXPECT_TRUE(told.ok()) << told;
  for (const absl::Status& told : Check({"", ""})) EXPECT_TRUE(told.ok()) << told;
}

}  // namespace
}  // namespace zeroshard::tools

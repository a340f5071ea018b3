#include "zeroshard/tools/launch/own_device.h"

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "zeroshard/comm/store_memory.h"

namespace zeroshard::tools {
namespace {

std::vector<absl::Status> Check(const std::vector<std::string>& identities, const std::vector<std::string>& libraries = {}) {
  comm::MemoryStore store;
  std::vector<absl::Status> told(identities.size());
  std::vector<std::thread> ranks;
  for (size_t r = 0; r < identities.size(); ++r) {
    ranks.emplace_back([&, r] {
      told[r] = CheckOwnDevice(store, {.identity = identities[r],
                                       .libraries = libraries.empty() ? "" : libraries[r],
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

TEST(OwnDevice, ComputesByTheSameLibrariesAsAllOthersSharedOrNot) {
  const std::string with = "cuBLASLt 13.0.2, cuDNN 9.14.0", without = "cuBLASLt 13.0.2, no cuDNN";
  for (const bool shared : {false, true}) {
    const std::vector<std::string> identities =
        shared ? std::vector<std::string>(3) : std::vector<std::string>{"GPU-1", "GPU-2", "GPU-3"};
    for (const absl::Status& told : Check(identities, {with, with, with})) EXPECT_TRUE(told.ok()) << told;
    for (const absl::Status& told : Check(identities, {with, with, without})) {
      EXPECT_TRUE(absl::IsInvalidArgument(told)) << told;
      EXPECT_TRUE(absl::StrContains(told.message(), "rank 0 has cuDNN 9.14.0, rank 2 has no cuDNN: ")) << told;
    }
  }
}

}  // namespace
}  // namespace zeroshard::tools

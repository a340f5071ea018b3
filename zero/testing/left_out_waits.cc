#include "zeroshard/zero/testing/left_out_waits.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "zeroshard/comm/backend_registry.h"
#include "zeroshard/device/late/end_test.h"
#include "zeroshard/device/late/test_devices.h"
#include "zeroshard/zero/testing/ranks.h"

namespace zeroshard::zero::testing {
namespace {

using device::WaitPoint;

constexpr char kNccl[] = "nccl";

using Training = std::function<absl::Status(comm::Communicator& communicator)>;

// Gives rank 0's device's waits.
std::vector<WaitPoint> RunWithout(int world_size, const Training& training, std::optional<WaitPoint> left_out) {
  bool first = true;
  const auto make_device = [&] {
    const bool is_first = std::exchange(first, false);
    return device::MakeOrderedDevice({}, is_first ? left_out : std::nullopt);
  };
  std::vector<WaitPoint> waits;
  const RankOptions ranks{.world_size = world_size, .backend_name = OverNccl() ? kNccl : "", .make_device = make_device};
  RunOnRanks(ranks, [&](comm::Communicator& communicator) {
    const absl::Status status = training(communicator);
    EXPECT_TRUE(status.ok()) << status;
    if (communicator.rank() == 0) waits = device::WaitsOf(communicator.device());
  });
  return waits;
}

enum class WithoutWait { kNeverCame, kCaught, kMissed };

// In a process of its own, which the device ends where it sees two unordered accesses.
WithoutWait RunInChildWithout(int world_size, const Training& training, const WaitPoint& point) {
  constexpr int kNeverCame = 3;
  const pid_t child = fork();
  if (child == 0) {
    if (std::freopen("/dev/null", "w", stderr) == nullptr) _exit(1);
    const std::vector<WaitPoint> waits = RunWithout(world_size, training, point);
    const bool came = std::any_of(waits.begin(), waits.end(), [&](const WaitPoint& wait) {
      return wait.stream == point.stream && wait.index == point.index;
    });
    _exit(came ? 0 : kNeverCame);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == device::kLateExitCode) return WithoutWait::kCaught;
  return WIFEXITED(status) && WEXITSTATUS(status) == kNeverCame ? WithoutWait::kNeverCame : WithoutWait::kMissed;
}

// Those that come in every one of a few runs: some come in one timing of the threads alone.
std::vector<WaitPoint> SteadyWaits(int world_size, const Training& training) {
  constexpr int kRuns = 5;
  const auto key = [](const WaitPoint& point) { return std::pair(point.stream, point.index); };
  std::map<std::pair<int, int64_t>, int> came;
  std::vector<WaitPoint> waits;
  for (int i = 0; i < kRuns; ++i) {
    waits = RunWithout(world_size, training, std::nullopt);
    for (const WaitPoint& point : waits) ++came[key(point)];
  }
  std::erase_if(waits, [&](const WaitPoint& point) { return came[key(point)] < kRuns; });
  return waits;
}

}  // namespace

bool OverNccl() {
  const std::vector<std::string> linked = comm::Backends();
  return std::find(linked.begin(), linked.end(), kNccl) != linked.end();
}

// A wait tells a stream nothing new where the host happened to learn it earlier: then it does not come, waits after it have
// other numbers, and now and then a later one covers it. So each is left out until the device sees it, and one that came this
// often without being seen is a wait that nothing checks.
void ExpectEachWaitIsMissed(const LeftOutWaits& options, const Training& training) {
  constexpr int kRuns = 400, kOften = 60;
  const std::vector<WaitPoint> waits = SteadyWaits(options.world_size, training);
  EXPECT_GE(static_cast<int>(waits.size()), options.fewest);
  int caught = 0;
  std::vector<std::string> uncaught;
  for (const WaitPoint& point : waits) {
    WithoutWait seen = WithoutWait::kNeverCame;
    int missed = 0;
    for (int i = 0; i < kRuns && missed < kOften && seen != WithoutWait::kCaught; ++i) {
      seen = RunInChildWithout(options.world_size, training, point);
      if (seen == WithoutWait::kMissed) ++missed;
    }
    if (seen == WithoutWait::kCaught) ++caught;
    if (missed == kOften) uncaught.push_back(absl::StrCat("stream ", point.stream, ", wait ", point.index));
  }
  EXPECT_LE(static_cast<int>(uncaught.size()), options.unneeded) << absl::StrJoin(uncaught, "; ") << " of " << waits.size();
  // All but the few that come in one timing of the threads alone.
  EXPECT_GE(caught + options.unneeded + 2, static_cast<int>(waits.size()));
}

}  // namespace zeroshard::zero::testing

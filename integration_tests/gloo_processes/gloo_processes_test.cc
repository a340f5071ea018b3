// Ranks that are processes, over Gloo: what the others say when one of them is killed or stopped, or calls something else.

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "zeroshard/comm/backend_registry.h"
#include "zeroshard/comm/store_spec.h"
#include "zeroshard/device/cpu/cpu_device.h"

namespace zeroshard {
namespace {

using comm::Communicator;
using comm::ReduceOp;
using device::Array;
using device::DType;
using ::testing::HasSubstr;

int64_t NowMs() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

// What a rank's process leaves in memory that the test's process sees.
struct Report {
  std::atomic<int64_t> operations{0};
  std::atomic<int64_t> noticed_ms{0};  // when an operation failed
  std::atomic<int64_t> ended_ms{0};    // when all was given back
  absl::StatusCode code = absl::StatusCode::kUnknown;
  char message[1024] = {};
};

constexpr int kMostRanks = 8;

class GlooProcesses : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(::testing::TempDir(), "/store.XXXXXX");
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    memory_ = mmap(nullptr, kMostRanks * sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory_, MAP_FAILED);
    for (int rank = 0; rank < kMostRanks; ++rank) new (&report(rank)) Report;
  }
  void TearDown() override {
    for (const pid_t process : processes_) kill(process, SIGKILL);
    for (const pid_t process : processes_) waitpid(process, nullptr, 0);
    munmap(memory_, kMostRanks * sizeof(Report));
    std::filesystem::remove_all(folder_);
  }

  Report& report(int rank) { return static_cast<Report*>(memory_)[rank]; }

  using Body = std::function<absl::Status(Communicator&, Report&)>;

  // Starts `started` ranks of `world_size`, each a process that runs `body` and reports how it ended.
  void Start(int world_size, absl::Duration timeout, const Body& body, int started = kMostRanks) {
    for (int rank = 0; rank < std::min(world_size, started); ++rank) {
      const pid_t process = fork();
      ASSERT_GE(process, 0);
      if (process > 0) {
        processes_.push_back(process);
        continue;
      }
      const absl::Status status = RunRank(rank, world_size, timeout, body);
      Report& mine = report(rank);
      mine.code = status.code();
      absl::string_view(status.message()).copy(mine.message, sizeof(mine.message) - 1);
      mine.ended_ms = NowMs();
      _exit(0);
    }
  }

  absl::Status RunRank(int rank, int world_size, absl::Duration timeout, const Body& body) {
    const std::unique_ptr<device::Device> device = device::MakeCpuDevice();
    auto store = comm::OpenStore("file:" + folder_,
                                 {.rank = rank, .world_size = world_size, .timeout = std::max(timeout, absl::Seconds(5))});
    if (!store.ok()) return store.status();
    comm::BackendOptions options;
    options.device = device.get();
    options.store = store->get();
    options.rank = rank;
    options.world_size = world_size;
    options.timeout = timeout;
    auto communicator = comm::CreateCommunicator("gloo", options);
    if (!communicator.ok()) return communicator.status();
    return body(**communicator, report(rank));
  }

  // Waits until rank `rank` has ended; false where it does not by `limit_ms` (on NowMs's clock).
  bool Ended(int rank, int64_t limit_ms) {
    while (report(rank).ended_ms == 0 && NowMs() < limit_ms) usleep(1000);
    return report(rank).ended_ms != 0;
  }
  void AwaitOperations(int rank, int64_t count) {
    const int64_t limit_ms = NowMs() + 20000;
    while (report(rank).operations < count && NowMs() < limit_ms) usleep(100);
    ASSERT_GE(report(rank).operations, count) << report(rank).message;
  }
  // The rank's process ended by itself, not by a signal.
  void ExpectCleanEnd(int rank) {
    int state = 0;
    ASSERT_EQ(waitpid(processes_[static_cast<size_t>(rank)], &state, 0), processes_[static_cast<size_t>(rank)]);
    EXPECT_TRUE(WIFEXITED(state)) << "rank " << rank << " ended by signal " << WTERMSIG(state);
    processes_[static_cast<size_t>(rank)] = fork();  // a stand-in for TearDown
    if (processes_[static_cast<size_t>(rank)] == 0) _exit(0);
  }

  std::string folder_;
  std::vector<pid_t> processes_;

 private:
  void* memory_ = nullptr;
};

// Every rank runs the same random operations, for ever or until one fails.
absl::Status RunForEver(Communicator& communicator, Report& report) {
  constexpr int64_t kElements = int64_t{1} << 19;
  const int n = communicator.world_size();
  auto buffer = communicator.device().Allocate(4 * kElements * n, device::Use::kCommunication, "test");
  if (!buffer.ok()) return buffer.status();
  const Array all = buffer->array(DType::kFloat32);
  std::mt19937_64 random(7);
  for (;; ++report.operations) {
    const auto count = static_cast<int64_t>(random() % kElements + 1);
    const Array whole = all.Slice(0, count * n);
    const Array mine = all.Slice(communicator.rank() * count, count);
    comm::Work work;
    switch (random() % 5) {
      case 0:
        work = communicator.AllReduce(mine, mine, ReduceOp::kMax);
        break;
      case 1:
        work = communicator.ReduceScatter(whole, mine, ReduceOp::kMax);
        break;
      case 2:
        work = communicator.AllGather(mine, whole);
        break;
      case 3:
        work = communicator.Broadcast(mine, mine, static_cast<int>(count % n));
        break;
      default:
        work = communicator.Barrier();
        break;
    }
    const absl::Status status = work.Wait();
    if (!status.ok()) {
      report.noticed_ms = NowMs();
      return status;
    }
  }
}

class Killed : public GlooProcesses, public ::testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(GlooProcesses, Killed, ::testing::Range(0, 6));

TEST_P(Killed, EverySurvivorNamesTheRankWithinASecond) {
  std::mt19937_64 random(static_cast<uint64_t>(GetParam()) * 977 + 5);
  const int world_size = 2 + GetParam() % 3;
  const int victim = static_cast<int>(random() % static_cast<uint64_t>(world_size));
  Start(world_size, absl::Seconds(30), &RunForEver);
  for (int rank = 0; rank < world_size; ++rank) AwaitOperations(rank, static_cast<int64_t>(random() % 10 + 1));
  usleep(static_cast<useconds_t>(random() % 50000));
  const int64_t killed_ms = NowMs();
  // Nobody collects it: it is a zombie for as long as the survivors run.
  ASSERT_EQ(kill(processes_[static_cast<size_t>(victim)], SIGKILL), 0);
  for (int rank = 0; rank < world_size; ++rank) {
    if (rank == victim) continue;
    ASSERT_TRUE(Ended(rank, killed_ms + 8000))
        << "rank " << rank << " hangs after " << report(rank).operations << " operations";
    EXPECT_LT(report(rank).noticed_ms - killed_ms, 1000);
    EXPECT_EQ(report(rank).code, absl::StatusCode::kUnavailable) << report(rank).message;
    EXPECT_THAT(std::string(report(rank).message), HasSubstr(absl::StrCat("rank ", victim, " is gone")));
    ExpectCleanEnd(rank);
  }
}

TEST_F(GlooProcesses, AStoppedRankIsNamedAtTheDeadline) {
  constexpr int kVictim = 1;
  Start(3, absl::Seconds(2), &RunForEver);
  for (int rank = 0; rank < 3; ++rank) AwaitOperations(rank, 3);
  const int64_t stopped_ms = NowMs();
  ASSERT_EQ(kill(processes_[kVictim], SIGSTOP), 0);
  for (const int rank : {0, 2}) {
    ASSERT_TRUE(Ended(rank, stopped_ms + 15000)) << "rank " << rank << " hangs";
    EXPECT_GE(report(rank).noticed_ms - stopped_ms, 1500);
    EXPECT_LT(report(rank).noticed_ms - stopped_ms, 5000);
    EXPECT_THAT(std::string(report(rank).message), HasSubstr(absl::StrCat("rank ", kVictim, " does not answer")));
    ExpectCleanEnd(rank);
  }
}

TEST_F(GlooProcesses, RanksThatCallDifferentSizesAreBothToldAndLiveOn) {
  Start(2, absl::Seconds(20), [](Communicator& communicator, Report&) {
    auto buffer = communicator.device().Allocate(1 << 20, device::Use::kCommunication, "test");
    if (!buffer.ok()) return buffer.status();
    const Array part = buffer->array(DType::kFloat32).Slice(0, communicator.rank() == 0 ? 2000 : 160000);
    return communicator.AllReduce(part, part, ReduceOp::kSum).Wait();
  });
  for (const int rank : {0, 1}) {
    ASSERT_TRUE(Ended(rank, NowMs() + 15000));
    EXPECT_EQ(report(rank).code, absl::StatusCode::kFailedPrecondition) << report(rank).message;
    EXPECT_THAT(std::string(report(rank).message), HasSubstr("2000 elements"));
    EXPECT_THAT(std::string(report(rank).message), HasSubstr("160000 elements"));
    ExpectCleanEnd(rank);
  }
}

TEST_F(GlooProcesses, ARankThatNeverComesIsNamed) {
  Start(3, absl::Seconds(1), &RunForEver, /*started=*/2);
  ASSERT_TRUE(Ended(0, NowMs() + 15000));
  EXPECT_EQ(report(0).code, absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(report(0).message), HasSubstr("rank 2 has not come"));
  ExpectCleanEnd(0);
}

TEST_F(GlooProcesses, EveryRankEndsWellWhereAllDo) {
  Start(4, absl::Seconds(20), [](Communicator& communicator, Report&) {
    const absl::Status status = communicator.Barrier().Wait();
    return status.ok() ? communicator.Finalize() : status;
  });
  for (int rank = 0; rank < 4; ++rank) {
    ASSERT_TRUE(Ended(rank, NowMs() + 15000));
    EXPECT_EQ(report(rank).code, absl::StatusCode::kOk) << report(rank).message;
    ExpectCleanEnd(rank);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_)) << "the store left files behind";
}

}  // namespace
}  // namespace zeroshard

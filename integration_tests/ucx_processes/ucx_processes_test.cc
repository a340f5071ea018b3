// Ranks that are processes, over UCX: what the others say when one of them is killed, stopped, or stopped for a while.

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
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
using ::testing::HasSubstr;

constexpr int kMostRanks = 8;
constexpr int64_t kElements = int64_t{1} << 19;

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

// How data goes: over shared memory, or over TCP as between hosts.
enum class Way { kSharedMemory, kTcp };

struct Run {
  Way way = Way::kSharedMemory;
  int seed = 0;
};
void PrintTo(const Run& run, std::ostream* out) {
  *out << (run.way == Way::kTcp ? "tcp" : "shared memory") << ", seed " << run.seed;
}

// How many seeds a test tries: ZS_SEEDS in its environment, for a longer search.
int Seeds(int usual) {
  const char* asked = getenv("ZS_SEEDS");
  return asked == nullptr ? usual : std::max(1, atoi(asked));
}

std::vector<Run> Runs(int seeds) {
  std::vector<Run> runs;
  for (int seed = 0; seed < seeds; ++seed) {
    runs.push_back({Way::kSharedMemory, seed});
    runs.push_back({Way::kTcp, seed});
  }
  return runs;
}

// Every rank runs the same random operations until one fails, or for as many as `most`.
absl::Status RunOperations(Communicator& communicator, Report& report, int64_t most) {
  const int n = communicator.world_size();
  auto buffer = communicator.Allocate(4 * kElements * n, device::Use::kCommunication, "test");
  if (!buffer.ok()) return buffer.status();
  const Array all = buffer->array(device::DType::kFloat32);
  std::mt19937_64 random(7);
  for (; report.operations < most; ++report.operations) {
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
  return communicator.Finalize();
}

class UcxProcesses : public ::testing::TestWithParam<Run> {
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
  pid_t process(int rank) const { return processes_[static_cast<size_t>(rank)]; }

  // Starts the ranks, each a process that reports how it ended.
  void Start(int world_size, absl::Duration timeout, int64_t operations) {
    for (int rank = 0; rank < world_size; ++rank) {
      const pid_t process = fork();
      ASSERT_GE(process, 0);
      if (process > 0) {
        processes_.push_back(process);
        continue;
      }
      if (GetParam().way == Way::kTcp) setenv("UCX_TLS", "tcp", 1);
      const absl::Status status = RunRank(rank, world_size, timeout, operations);
      Report& mine = report(rank);
      mine.code = status.code();
      absl::string_view(status.message()).copy(mine.message, sizeof(mine.message) - 1);
      mine.ended_ms = NowMs();
      _exit(0);
    }
  }

  absl::Status RunRank(int rank, int world_size, absl::Duration timeout, int64_t operations) {
    const std::unique_ptr<device::Device> device = device::MakeCpuDevice();
    auto store = comm::OpenStore("file:" + folder_, {.rank = rank, .world_size = world_size, .timeout = absl::Seconds(30)});
    if (!store.ok()) return store.status();
    comm::BackendOptions options;
    options.device = device.get();
    options.store = store->get();
    options.rank = rank;
    options.world_size = world_size;
    options.timeout = timeout;
    auto communicator = comm::CreateCommunicator("ucx", options);
    if (!communicator.ok()) return communicator.status();
    return RunOperations(**communicator, report(rank), operations);
  }

  // Waits until rank `rank` has ended; false where it does not by `limit_ms` (on NowMs's clock).
  bool Ended(int rank, int64_t limit_ms) {
    while (report(rank).ended_ms == 0 && NowMs() < limit_ms) usleep(1000);
    return report(rank).ended_ms != 0;
  }
  void AwaitOperations(int rank, int64_t count) {
    const int64_t limit_ms = NowMs() + 30000;
    while (report(rank).operations < count && NowMs() < limit_ms) usleep(100);
    ASSERT_GE(report(rank).operations, count) << report(rank).message;
  }

  std::string folder_;
  std::vector<pid_t> processes_;

 private:
  void* memory_ = nullptr;
};

class Killed : public UcxProcesses {};
INSTANTIATE_TEST_SUITE_P(UcxProcesses, Killed, ::testing::ValuesIn(Runs(Seeds(4))));

TEST_P(Killed, EverySurvivorNamesTheRankWithinTwoSeconds) {
  std::mt19937_64 random(static_cast<uint64_t>(GetParam().seed) * 977 + 5);
  const int world_size = 2 + GetParam().seed % 3;
  const int victim = static_cast<int>(random() % static_cast<uint64_t>(world_size));
  Start(world_size, absl::Seconds(30), int64_t{1} << 40);
  for (int rank = 0; rank < world_size; ++rank) AwaitOperations(rank, static_cast<int64_t>(random() % 10 + 1));
  usleep(static_cast<useconds_t>(random() % 50000));
  const int64_t killed_ms = NowMs();
  // Nobody collects it: it is a zombie for as long as the survivors run.
  ASSERT_EQ(kill(process(victim), SIGKILL), 0);
  for (int rank = 0; rank < world_size; ++rank) {
    if (rank == victim) continue;
    ASSERT_TRUE(Ended(rank, killed_ms + 10000))
        << "rank " << rank << " hangs after " << report(rank).operations << " operations";
    EXPECT_LT(report(rank).noticed_ms - killed_ms, 2000);
    EXPECT_EQ(report(rank).code, absl::StatusCode::kUnavailable) << report(rank).message;
    EXPECT_THAT(std::string(report(rank).message), HasSubstr(absl::StrCat("rank ", victim, " is gone")));
  }
}

class Stopped : public UcxProcesses {};
INSTANTIATE_TEST_SUITE_P(UcxProcesses, Stopped, ::testing::ValuesIn(Runs(Seeds(1))));

TEST_P(Stopped, IsNamedAtTheDeadlineByThoseWhoWaitForItAndThoseWhoWaitForThem) {
  const int world_size = 3 + GetParam().seed % 2;
  Start(world_size, absl::Seconds(3), int64_t{1} << 40);
  for (int rank = 0; rank < world_size; ++rank) AwaitOperations(rank, 3);
  const int64_t stopped_ms = NowMs();
  ASSERT_EQ(kill(process(1), SIGSTOP), 0);
  for (int rank = 0; rank < world_size; ++rank) {
    if (rank == 1) continue;
    ASSERT_TRUE(Ended(rank, stopped_ms + 20000)) << "rank " << rank << " hangs";
    EXPECT_FALSE(report(rank).code == absl::StatusCode::kOk);
    EXPECT_THAT(std::string(report(rank).message), HasSubstr("rank 1 does not answer"));
  }
}

TEST_P(Stopped, AndContinuedGoesOn) {
  Start(3, absl::Seconds(60), 200);
  for (int rank = 0; rank < 3; ++rank) AwaitOperations(rank, 3);
  ASSERT_EQ(kill(process(1), SIGSTOP), 0);
  usleep(1500000);
  ASSERT_EQ(kill(process(1), SIGCONT), 0);
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(Ended(rank, NowMs() + 60000)) << "rank " << rank << " hangs";
    EXPECT_EQ(report(rank).code, absl::StatusCode::kOk) << report(rank).message;
    EXPECT_EQ(report(rank).operations, 200);
  }
}

}  // namespace
}  // namespace zeroshard

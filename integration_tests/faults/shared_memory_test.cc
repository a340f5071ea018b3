// Shared memory that is small, or none, or left by ranks that were killed. In namespaces of the test's own.
#include <sched.h>
#include <sys/ipc.h>
#include <sys/mount.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "zeroshard/integration_tests/faults/random_operations.h"
#include "zeroshard/integration_tests/faults/ranks.h"

namespace {

// Of segments that this process makes: when it is killed, which UCX has not yet mapped. 0: never.
int segments_to_its_death = 0;

}  // namespace

// In place of the system's, which UCX calls.
extern "C" int shmget(key_t key, size_t bytes, int flags) noexcept {
  const int segment = static_cast<int>(syscall(SYS_shmget, key, bytes, flags));
  if (segment >= 0 && segments_to_its_death > 0 && --segments_to_its_death == 0) raise(SIGKILL);
  return segment;
}

namespace zeroshard::integration_tests {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr char kFolder[] = "/dev/shm";
constexpr char kSegments[] = "/proc/sys/kernel/shmmni";

// Why this process cannot have a /dev/shm of 1 MiB and shared memory of its own; empty where it has them now.
std::string Separate() {
  if (unshare(CLONE_NEWNS | CLONE_NEWIPC) != 0) return absl::StrCat("unshare: ", strerror(errno));
  if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return absl::StrCat("mount: ", strerror(errno));
  if (mount("tmpfs", kFolder, "tmpfs", 0, "size=1m") != 0) return absl::StrCat("mount ", kFolder, ": ", strerror(errno));
  return "";
}

class SharedMemory : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { why_not_ = new std::string(Separate()); }
  void SetUp() override {
    if (!why_not_->empty()) GTEST_SKIP() << *why_not_;
  }
  static const std::string* why_not_;

  static int64_t Segments() {
    std::ifstream segments("/proc/sysvipc/shm");
    const std::string text((std::istreambuf_iterator<char>(segments)), std::istreambuf_iterator<char>());
    return std::count(text.begin(), text.end(), '\n') - 1;  // the table's head
  }
  void ExpectNothingLeft() {
    EXPECT_TRUE(std::filesystem::is_empty(kFolder));
    EXPECT_EQ(Segments(), 0);
  }

  static absl::Status Run(comm::Communicator& rank, RankReport& report) {
    return RunOperations(rank, report, {.seed = 3, .most = 100, .finalize = false});
  }
};

const std::string* SharedMemory::why_not_ = nullptr;

TEST_F(SharedMemory, IsNotBoundedByATinyFolderAndIsGivenBack) {
  const std::unique_ptr<Ranks> ranks = MakeProcessRanks("ucx", {});
  ranks->Start(3, absl::Seconds(30), &Run);
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(ranks->Ended(rank, NowMs() + 30000));
    EXPECT_EQ(ranks->report(rank).code, absl::StatusCode::kOk) << ranks->message(rank);
    EXPECT_EQ(ranks->report(rank).wrong, 0);
  }
  ExpectNothingLeft();
}

TEST_F(SharedMemory, IsGivenBackByRanksThatAreKilled) {
  for (int seed = 0; seed < 4; ++seed) {
    const std::unique_ptr<Ranks> ranks = MakeProcessRanks("ucx", {});
    ranks->Start(2, absl::Seconds(30),
                 [](comm::Communicator& rank, RankReport& report) { return RunOperations(rank, report, {.seed = 4}); });
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    if (seed > 0) {
      ASSERT_TRUE(ranks->AwaitOperations(0, static_cast<int64_t>(random() % 20)));
    }
    usleep(static_cast<useconds_t>(random() % 50000));  // While it connects, too.
    for (const int rank : {0, 1}) ranks->Kill(rank);
    for (const int rank : {0, 1}) EXPECT_EQ(ranks->Crash(rank), "signal 9");
    ExpectNothingLeft();
  }
}

TEST_F(SharedMemory, OfARankThatIsKilledBeforeItIsMappedIsTakenBackByTheNextStart) {
  setenv("XDG_RUNTIME_DIR", ::testing::TempDir().c_str(), 1);
  // At each segment in turn, until a rank makes no more.
  int which = 1;
  for (bool killed = true; killed && which < 50; ++which) {
    {
      const std::unique_ptr<Ranks> ranks = MakeProcessRanks("ucx", {});
      segments_to_its_death = which;  // of each rank's process
      ranks->Start(2, absl::Seconds(30), &Run);
      segments_to_its_death = 0;
      killed = ranks->Crash(0) == "signal 9";
      ranks->Kill(1);
    }
    // Where rank 0 makes no more, rank 1 may have been killed at one of its own.
    if (killed) {
      EXPECT_GT(Segments(), 0);
    }
    const std::unique_ptr<Ranks> next = MakeProcessRanks("ucx", {});
    next->Start(2, absl::Seconds(30), &Run);
    for (const int rank : {0, 1}) EXPECT_TRUE(next->Ended(rank, NowMs() + 30000));
    EXPECT_EQ(next->report(0).code, absl::StatusCode::kOk) << next->message(0);
    ExpectNothingLeft();
  }
  EXPECT_GT(which, 4);  // Of UCX's start, of its worker, of the ranks' pages, of Allocate.
}

TEST_F(SharedMemory, OfAnotherProgramThatEndedStays) {
  setenv("XDG_RUNTIME_DIR", ::testing::TempDir().c_str(), 1);
  const pid_t other = fork();
  if (other == 0) {
    shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
    _exit(0);
  }
  ASSERT_EQ(waitpid(other, nullptr, 0), other);
  ASSERT_EQ(Segments(), 1);
  const std::unique_ptr<Ranks> ranks = MakeProcessRanks("ucx", {});
  ranks->Start(2, absl::Seconds(30), &Run);
  for (const int rank : {0, 1}) EXPECT_TRUE(ranks->Ended(rank, NowMs() + 30000));
  EXPECT_EQ(Segments(), 1);
  shmid_ds segment = {};
  for (int index = 0; index < 100; ++index) shmctl(shmctl(index, SHM_STAT, &segment), IPC_RMID, nullptr);
  ExpectNothingLeft();
}

void ExpectNoRoom(const std::vector<std::pair<std::string, std::string>>& environment, const std::string& words) {
  const std::unique_ptr<Ranks> ranks = MakeProcessRanks("ucx", environment);
  const int64_t begun_ms = NowMs();
  ranks->Start(2, absl::Seconds(60), [](comm::Communicator& /*rank*/, RankReport& /*report*/) { return absl::OkStatus(); });
  for (const int rank : {0, 1}) {
    ASSERT_TRUE(ranks->Ended(rank, begun_ms + 20000));
    EXPECT_EQ(ranks->Crash(rank), "");
    EXPECT_THAT(ranks->report(rank).code,
                AnyOf(absl::StatusCode::kResourceExhausted, absl::StatusCode::kUnavailable));  // the other's word
    EXPECT_THAT(ranks->message(rank), HasSubstr(words));
  }
}

TEST_F(SharedMemory, ThatHasNoRoomIsAnErrorAtTheStart) {
  std::ofstream(kSegments) << 1;
  std::ifstream file(kSegments);
  int segments = 0;
  file >> segments;
  if (segments != 1) GTEST_SKIP() << kSegments << " cannot be written here";
  ExpectNoRoom({}, "no room for its shared memory");
  ExpectNothingLeft();
  std::ofstream(kSegments) << 4096;
}

TEST_F(SharedMemory, OfAFolderThatHasNoRoomIsAnErrorAtTheStart) {
  ExpectNoRoom({{"UCX_TLS", "posix,tcp"}}, kFolder);
  ExpectNothingLeft();
}

}  // namespace
}  // namespace zeroshard::integration_tests

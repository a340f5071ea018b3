#include "zeroshard/zero/offload/state_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <vector>

#include "zeroshard/zero/offload/state_folder.h"

namespace zeroshard::zero {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kPage = kFileAlignmentBytes;

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<std::byte[], Free>;

Memory Filled(int64_t bytes, int seed) {
  Memory memory(static_cast<std::byte*>(std::aligned_alloc(kPage, static_cast<size_t>(bytes))));
  for (int64_t i = 0; i < bytes; ++i) memory[i] = static_cast<std::byte>((i * 7 + i / kPage + seed) & 0xff);
  return memory;
}

bool Equal(const Memory& a, const Memory& b, int64_t bytes) { return std::equal(a.get(), a.get() + bytes, b.get()); }

class Folder {
 public:
  Folder()
      : path_(fs::path(::testing::TempDir()) / ("state_file_" + std::to_string(getpid()) + "_" + std::to_string(made_++))) {
    fs::create_directories(path_);
  }
  ~Folder() {
    fs::permissions(path_, fs::perms::owner_all);
    fs::remove_all(path_);
  }
  std::string path() const { return path_.string(); }
  int64_t entries() const { return std::distance(fs::directory_iterator(path_), {}); }

 private:
  static inline int made_ = 0;
  fs::path path_;
};

struct Way {
  bool uring;
  bool direct;
};

class StateFileWays : public ::testing::TestWithParam<Way> {
 protected:
  StateFileOptions Options(const std::string& folder, int64_t bytes) const {
    return {.folder = folder, .bytes = bytes, .allow_uring = GetParam().uring, .allow_direct = GetParam().direct};
  }
};

TEST_P(StateFileWays, ReadsWhatWasWrittenInAnyOrder) {
  const Folder folder;
  const int64_t bytes = 5 * kMostPieceBytes + 3 * kPage;
  auto file = StateFile::Create(Options(folder.path(), bytes));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_LE((*file)->uses_uring(), GetParam().uring);
  EXPECT_LE((*file)->is_direct(), GetParam().direct);
  const Memory written = Filled(bytes, 1);
  const Memory read = Filled(bytes, 2);
  Transfer transfer;
  (*file)->Write(3 * kPage, written.get() + 3 * kPage, bytes - 3 * kPage, transfer);
  (*file)->Write(0, written.get(), 3 * kPage, transfer);
  ASSERT_TRUE((*file)->Wait(transfer).ok());
  Transfer first;
  Transfer second;
  (*file)->Read(kPage, read.get() + kPage, bytes - kPage, first);
  (*file)->Read(0, read.get(), kPage, second);
  ASSERT_TRUE((*file)->Wait(second).ok());
  ASSERT_TRUE((*file)->Wait(first).ok());
  EXPECT_TRUE(Equal(written, read, bytes));
}

TEST_P(StateFileWays, BeginsAsZeros) {
  const Folder folder;
  auto file = StateFile::Create(Options(folder.path(), 2 * kPage - 5));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->bytes(), 2 * kPage);
  const Memory read = Filled(2 * kPage, 1);
  Transfer transfer;
  (*file)->Read(0, read.get(), 2 * kPage, transfer);
  ASSERT_TRUE((*file)->Wait(transfer).ok());
  for (int64_t i = 0; i < 2 * kPage; ++i) ASSERT_EQ(read[i], std::byte{0});
}

TEST_P(StateFileWays, MorePiecesThanTheQueueHoldsAreAllMoved) {
  const Folder folder;
  const int64_t bytes = 3 * kQueueDepth * kPage;
  auto file = StateFile::Create(Options(folder.path(), bytes));
  ASSERT_TRUE(file.ok()) << file.status();
  const Memory written = Filled(bytes, 3);
  const Memory read = Filled(bytes, 4);
  std::vector<Transfer> transfers(3 * kQueueDepth);
  for (int i = 0; i < 3 * kQueueDepth; ++i) (*file)->Write(i * kPage, written.get() + i * kPage, kPage, transfers[i]);
  for (Transfer& transfer : transfers) ASSERT_TRUE((*file)->Wait(transfer).ok());
  for (int i = 0; i < 3 * kQueueDepth; ++i) (*file)->Read(i * kPage, read.get() + i * kPage, kPage, transfers[i]);
  for (Transfer& transfer : transfers) ASSERT_TRUE((*file)->Wait(transfer).ok());
  EXPECT_TRUE(Equal(written, read, bytes));
}

TEST_P(StateFileWays, SaysWhereAReadFailed) {
  const Folder folder;
  auto file = StateFile::Create(Options(folder.path(), kPage));
  ASSERT_TRUE(file.ok()) << file.status();
  Transfer transfer;
  (*file)->Read(0, nullptr, kPage, transfer);
  const absl::Status status = (*file)->Wait(transfer);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("read of 4096 bytes at offset 0 of the offload file in " + folder.path()),
            std::string::npos)
      << status;
  const Memory read = Filled(kPage, 1);
  (*file)->Read(0, read.get(), kPage, transfer);
  EXPECT_TRUE((*file)->Wait(transfer).ok()) << "an error is of its transfer alone";
}

TEST_P(StateFileWays, HasNoNameInItsFolder) {
  const Folder folder;
  auto file = StateFile::Create(Options(folder.path(), kPage));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(folder.entries(), 0);
}

INSTANTIATE_TEST_SUITE_P(Ways, StateFileWays,
                         ::testing::Values(Way{true, true}, Way{true, false}, Way{false, true}, Way{false, false}),
                         [](const auto& tested) {
                           return std::string(tested.param.uring ? "Uring" : "Threads") +
                                  (tested.param.direct ? "Direct" : "Cached");
                         });

TEST(StateFile, IsGoneWithAProcessThatIsKilled) {
  const Folder folder;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto file = StateFile::Create({.folder = folder.path(), .bytes = 16 * kPage});
    const char made = file.ok() ? 'y' : 'n';
    if (write(ready[1], &made, 1) != 1) _exit(1);
    pause();
    _exit(0);
  }
  char made = 'n';
  ASSERT_EQ(read(ready[0], &made, 1), 1);
  EXPECT_EQ(made, 'y');
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(folder.entries(), 0);
  close(ready[0]);
  close(ready[1]);
}

TEST(StateFile, AFullDiskIsAnErrorThatNamesFolderWantedAndFree) {
  const Folder folder;
  const auto file = StateFile::Create({.folder = folder.path(), .bytes = int64_t{1} << 60});
  ASSERT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(file.status().message().find(folder.path()), std::string::npos) << file.status();
  EXPECT_NE(file.status().message().find("takes 1152921504606846976 bytes, "), std::string::npos) << file.status();
  EXPECT_NE(file.status().message().find(" are free"), std::string::npos) << file.status();
  EXPECT_EQ(folder.entries(), 0);
}

TEST(StateFile, AllotsItsBytesAtOnce) {
  const Folder folder;
  const auto before = fs::space(folder.path()).free;
  const int64_t bytes = int64_t{64} << 20;
  auto file = StateFile::Create({.folder = folder.path(), .bytes = bytes});
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_LT(fs::space(folder.path()).free, before - bytes / 2);
}

TEST(StateFile, FoldersThatCannotServeAreRefusedByName) {
  const Folder folder;
  EXPECT_TRUE(CheckStateFolder(folder.path()).ok());
  const std::string missing = folder.path() + "/missing";
  const absl::Status none = CheckStateFolder(missing);
  EXPECT_EQ(none.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(none.message().find(missing + ": No such file or directory"), std::string::npos) << none;
  EXPECT_FALSE(CheckStateFolder("/dev/null").ok());
  EXPECT_FALSE(CheckStateFolder("").ok());
  EXPECT_FALSE(StateFile::Create({.folder = missing, .bytes = kPage}).ok());
  if (geteuid() == 0) return;  // who may write everywhere
  fs::permissions(folder.path(), fs::perms::owner_read);
  EXPECT_FALSE(CheckStateFolder(folder.path()).ok());
}

TEST(StateFile, AnEmptyOneIsAnOrdinaryOne) {
  const Folder folder;
  auto file = StateFile::Create({.folder = folder.path(), .bytes = 0});
  ASSERT_TRUE(file.ok()) << file.status();
  Transfer transfer;
  EXPECT_TRUE((*file)->Wait(transfer).ok());
}

}  // namespace
}  // namespace zeroshard::zero

#include "zeroshard/comm/store.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "zeroshard/comm/store_file.h"
#include "zeroshard/comm/store_file_access.h"
#include "zeroshard/comm/store_memory.h"
#include "zeroshard/comm/store_prefix.h"
#include "zeroshard/comm/store_spec.h"

namespace zeroshard::comm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string NewFolder() {
  std::string folder = absl::StrCat(::testing::TempDir(), "/store.XXXXXX");
  EXPECT_NE(mkdtemp(folder.data()), nullptr);
  return folder;
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

// One store for all ranks, or one for each that meet in a folder.
struct Ranks {
  std::vector<std::unique_ptr<Store>> owned;
  std::vector<Store*> stores;
};

Ranks OpenFileStores(const std::string& path, int world_size) {
  Ranks ranks;
  ranks.owned.resize(static_cast<size_t>(world_size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      auto store = FileStore::Open(path, {.rank = rank, .world_size = world_size, .timeout = absl::Seconds(20)});
      ASSERT_TRUE(store.ok()) << store.status();
      ranks.owned[static_cast<size_t>(rank)] = *std::move(store);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& store : ranks.owned) ranks.stores.push_back(store.get());
  return ranks;
}

class EveryStore : public ::testing::TestWithParam<const char*> {
 protected:
  Ranks Open(int world_size) {
    if (std::string(GetParam()) == "File") return OpenFileStores(NewFolder(), world_size);
    Ranks ranks;
    ranks.owned.push_back(std::make_unique<MemoryStore>());
    if (std::string(GetParam()) == "Prefix") {
      ranks.owned.push_back(std::make_unique<PrefixStore>("group 1/", *ranks.owned[0]));
    }
    ranks.stores.assign(static_cast<size_t>(world_size), ranks.owned.back().get());
    return ranks;
  }
};
INSTANTIATE_TEST_SUITE_P(Stores, EveryStore, ::testing::Values("Memory", "Prefix", "File"),
                         [](const auto& store) { return std::string(store.param); });

TEST_P(EveryStore, KeepsAnyBytesUnderAnyKey) {
  const Ranks ranks = Open(2);
  const std::string value("\0\xff\n", 3);
  for (const std::string& key :
       {std::string("a"), std::string("a/../b c%\0\xfe", 11), std::string(60, '/'), std::string(".")}) {
    ASSERT_EQ(ranks.stores[0]->Set(key, value), absl::OkStatus());
    EXPECT_EQ(ranks.stores[1]->Get(key, absl::Seconds(5)).value(), value);
    ASSERT_EQ(ranks.stores[1]->Set(key, ""), absl::OkStatus());
    EXPECT_EQ(ranks.stores[0]->TryGet(key).value(), "");
  }
}

TEST_P(EveryStore, RefusesKeysAndValuesBeyondTheBounds) {
  const Ranks ranks = Open(1);
  Store& store = *ranks.stores[0];
  EXPECT_EQ(store.Set("", "x").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store.Get(std::string(kMaxStoreKeyBytes + 1, 'k'), absl::Seconds(1)).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store.Set("k", std::string(kMaxStoreValueBytes + 1, 'v')).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store.Set("k", std::string(kMaxStoreValueBytes, 'v')), absl::OkStatus());
}

TEST_P(EveryStore, GetWaitsForAnotherRank) {
  const Ranks ranks = Open(2);
  EXPECT_EQ(ranks.stores[0]->TryGet("late").value(), std::nullopt);
  std::thread other([&] {
    absl::SleepFor(absl::Milliseconds(50));
    ASSERT_EQ(ranks.stores[1]->Set("late", "here"), absl::OkStatus());
  });
  EXPECT_EQ(ranks.stores[0]->Get("late", absl::Seconds(20)).value(), "here");
  other.join();
}

TEST_P(EveryStore, WaitNamesTheKeysThatNobodySet) {
  const Ranks ranks = Open(1);
  ASSERT_EQ(ranks.stores[0]->Set("address/0", "x"), absl::OkStatus());
  const std::string keys[] = {"address/0", "address/1", "address/2"};
  const absl::Status status = ranks.stores[0]->Wait(keys, absl::Milliseconds(30));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Message(status), HasSubstr("waited 30ms for \"address/1\", \"address/2\", which no rank has set"));
}

TEST_P(EveryStore, AddGivesEachRankAnotherSum) {
  const Ranks ranks = Open(3);
  constexpr int kTimes = 40;
  std::vector<std::vector<int64_t>> sums(3);
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      for (int i = 0; i < kTimes; ++i) sums[rank].push_back(ranks.stores[rank]->Add("count", 1).value());
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<int64_t> all;
  for (const auto& some : sums) all.insert(all.end(), some.begin(), some.end());
  std::sort(all.begin(), all.end());
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], static_cast<int64_t>(i) + 1);
  EXPECT_EQ(ranks.stores[0]->Add("count", -200).value(), 3 * kTimes - 200);
}

TEST_P(EveryStore, AddRefusesWhatIsNoCounter) {
  const Ranks ranks = Open(1);
  ASSERT_EQ(ranks.stores[0]->Set("word", "ten"), absl::OkStatus());
  EXPECT_EQ(ranks.stores[0]->Add("word", 1).status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_EQ(ranks.stores[0]->Set("most", "9223372036854775807"), absl::OkStatus());
  EXPECT_EQ(ranks.stores[0]->Add("most", 1).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(PrefixStore, KeepsItsKeysApart) {
  MemoryStore store;
  PrefixStore one("1/", store), two("2/", store);
  ASSERT_EQ(one.Set("k", "one"), absl::OkStatus());
  EXPECT_EQ(two.TryGet("k").value(), std::nullopt);
  EXPECT_EQ(store.TryGet("1/k").value(), "one");
}

TEST(FileStore, SeesNothingOfAnEarlierRunAndSweepsItAway) {
  const std::string folder = NewFolder();
  {
    const Ranks earlier = OpenFileStores(folder, 2);
    ASSERT_EQ(earlier.stores[0]->Set("address/0", "old"), absl::OkStatus());
    // Killed: nobody closes it. What it had lies there still.
    std::filesystem::copy(folder + "/zeroshard", folder + "/kept", std::filesystem::copy_options::recursive);
  }
  std::filesystem::rename(folder + "/kept", folder + "/zeroshard");
  std::filesystem::permissions(folder + "/zeroshard", std::filesystem::perms::owner_all);
  std::ofstream(folder + "/zeroshard/ask.1.dead") << 2;
  std::ofstream(folder + "/zeroshard/answer.dead") << "come run.gone";
  {
    const Ranks ranks = OpenFileStores(folder, 2);
    EXPECT_EQ(ranks.stores[1]->TryGet("address/0").value(), std::nullopt);
    ASSERT_EQ(ranks.stores[0]->Set("address/0", "new"), absl::OkStatus());
    EXPECT_EQ(ranks.stores[1]->Get("address/0", absl::Seconds(5)).value(), "new");
    int entries = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder + "/zeroshard")) ++entries;
    EXPECT_EQ(entries, 2) << "this run's folder and the leader's lock";
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

TEST(FileStore, IsForThisUserAlone) {
  const std::string folder = NewFolder() + "/made";
  const Ranks ranks = OpenFileStores(folder, 1);
  ASSERT_EQ(ranks.stores[0]->Set("k", "v"), absl::OkStatus());
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    struct stat found;
    ASSERT_EQ(stat(entry.path().c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777, entry.is_directory() ? 0700u : 0600u) << entry.path();
  }
}

TEST(FileStore, TakesAFileForAFolderBesideIt) {
  const std::string file = NewFolder() + "/rendezvous";
  std::ofstream(file).close();
  {
    const Ranks ranks = OpenFileStores(file, 2);
    ASSERT_EQ(ranks.stores[0]->Set("k", "v"), absl::OkStatus());
    EXPECT_TRUE(std::filesystem::is_directory(file + ".zeroshard"));
  }
  EXPECT_TRUE(std::filesystem::is_regular_file(file));
}

absl::Status OpenAlone(const std::string& path, int rank = 0, int world_size = 1) {
  return FileStore::Open(path, {.rank = rank, .world_size = world_size, .timeout = absl::Milliseconds(100)}).status();
}

TEST(FileStore, SaysWhatIsWrongWithThePath) {
  const std::string folder = NewFolder();
  EXPECT_EQ(OpenAlone("").code(), absl::StatusCode::kInvalidArgument);
  const absl::Status missing = OpenAlone(folder + "/no/such");
  EXPECT_EQ(missing.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(missing), AllOf(HasSubstr(folder + "/no/such"), HasSubstr("No such file or directory")));
  EXPECT_THAT(Message(OpenAlone("/dev/null")), HasSubstr("/dev/null is neither a folder nor a file"));
  EXPECT_EQ(OpenAlone("/proc").code(), absl::StatusCode::kInvalidArgument);
  std::filesystem::create_directory(folder + "/zeroshard");
  chmod((folder + "/zeroshard").c_str(), 0777);
  EXPECT_THAT(Message(OpenAlone(folder)), HasSubstr("writable by nobody else"));
  std::filesystem::remove(folder + "/zeroshard");
  std::filesystem::create_directory_symlink("/", folder + "/zeroshard");
  EXPECT_EQ(OpenAlone(folder).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(OpenAlone(folder, 3, 2).code(), absl::StatusCode::kInvalidArgument);
}

TEST(FileStore, NamesTheRanksThatDoNotCome) {
  const std::string folder = NewFolder();
  const absl::Status leader = OpenAlone(folder, 0, 3);
  EXPECT_EQ(leader.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Message(leader), HasSubstr("ranks 1, 2 have not come"));
  const absl::Status member = OpenAlone(folder, 1, 3);
  EXPECT_EQ(member.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Message(member), HasSubstr("rank 0 has not answered rank 1"));
}

TEST(FileStore, RefusesRanksThatDisagreeOnTheWorldSize) {
  const std::string folder = NewFolder();
  absl::Status member;
  std::thread other(
      [&] { member = FileStore::Open(folder, {.rank = 1, .world_size = 3, .timeout = absl::Seconds(20)}).status(); });
  const absl::Status leader = FileStore::Open(folder, {.rank = 0, .world_size = 2, .timeout = absl::Seconds(1)}).status();
  other.join();
  EXPECT_EQ(member.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(leader.code(), absl::StatusCode::kFailedPrecondition);
  for (const absl::Status& status : {member, leader}) {
    EXPECT_THAT(Message(status), HasSubstr("rank 1 speaks of 3 ranks, rank 0 of 2 ranks"));
  }
}

TEST(FileStore, RefusesASecondJob) {
  const std::string folder = NewFolder();
  const Ranks first = OpenFileStores(folder, 1);
  const absl::Status second = OpenAlone(folder);
  EXPECT_EQ(second.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(Message(second), HasSubstr("rank 0 of another job holds it"));
}

TEST(FileStore, CallsAFullFileSystemAResourceThatIsExhausted) {
  const absl::Status full = FileError("write", "/shared/x", ENOSPC);
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Message(full), "write /shared/x: No space left on device");
}

TEST(StoreSpec, ReadsFileAndRefusesTheRest) {
  EXPECT_EQ(ParseStoreSpec("file:/a/b").value().path, "/a/b");
  EXPECT_EQ(ParseStoreSpec("file:relative").value().path, "relative");
  EXPECT_EQ(ParseStoreSpec("tcp:host:29500").value().address, "host:29500");
  EXPECT_EQ(ParseStoreSpec("tcp:[fd00::1]:1").value().address, "[fd00::1]:1");
  for (const char* spec :
       {"tcp:", "tcp:host", "tcp:host:", "tcp::1", "tcp:host:0", "tcp:host:65536", "tcp:fd00::1:29500", "tcp:h:+1"}) {
    const absl::Status tcp = ParseStoreSpec(spec).status();
    EXPECT_EQ(tcp.code(), absl::StatusCode::kInvalidArgument) << spec;
    EXPECT_THAT(Message(tcp), AllOf(HasSubstr("--store="), HasSubstr("tcp:node1:29500"))) << spec;
  }
  for (const char* spec : {"", "file:", "file", "redis:x", "/a/b", "FILE:/a"}) {
    EXPECT_EQ(ParseStoreSpec(spec).status().code(), absl::StatusCode::kInvalidArgument) << spec;
  }
}

}  // namespace
}  // namespace zeroshard::comm

// What other ranks, and whoever was there before, may have left in the file store's folder: values and counters, asks, answers.
#include "zeroshard/comm/store_file.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "glog/logging.h"
#include "zeroshard/comm/store_file_access.h"
#include "zeroshard/comm/store_file_rendezvous.h"
#include "zeroshard/tools/fuzz/fuzz_target.h"

namespace zeroshard::comm {
namespace {

// Of this process; empty.
class Folder {
 public:
  Folder() : path_((std::filesystem::temp_directory_path() / absl::StrCat("zeroshard-fuzz-store.", getpid())).string()) {
    std::filesystem::remove_all(path_);
    CHECK(MakePrivateFolder(path_).ok());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

std::vector<std::string> NamesIn(const std::string& folder) {
  auto names = ListFolder(folder);
  CHECK(names.ok()) << names.status();
  return *std::move(names);
}

// The only run under `folder`.
std::string RunIn(const std::string& folder) {
  for (const std::string& name : NamesIn(folder)) {
    if (name.compare(0, 4, "run.") == 0) return absl::StrCat(folder, "/", name);
  }
  LOG(FATAL) << "no run in " << folder;
}

void ReadValue(const std::string& bytes) {
  const Folder folder;
  const auto store = FileStore::Open(folder.path(), {.rank = 0, .world_size = 1, .timeout = absl::Seconds(5)});
  CHECK(store.ok()) << store.status();
  const std::string run = RunIn(folder.path() + "/zeroshard");
  CHECK(WriteWhole(run, "key.a", bytes).ok());
  const auto value = (*store)->TryGet("a");
  CHECK(value.ok() && **value == bytes);
  const auto sum = (*store)->Add("a", 1);
  CHECK(fuzz::Prints(sum.status().message())) << sum.status();
  CHECK_EQ(**(*store)->TryGet("a"), sum.ok() ? absl::StrCat(*sum) : bytes);
  CHECK(WriteWhole(run, "key.left", bytes).ok());  // What the last rank counts when it goes.
}

// As rank 0, of asks: a name up to the first line's end, and what the file says.
void AnswerAsk(const std::string& bytes) {
  const Folder folder;
  const size_t end = std::min(bytes.find('\n'), bytes.size());
  std::string name = bytes.substr(0, std::min<size_t>(end, 100));
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '/' || c == '\0'; }, '_');
  CHECK(WriteWhole(folder.path(), absl::StrCat("ask.", name), bytes.substr(std::min(end + 1, bytes.size()))).ok());
  const auto met = MeetInFolder(folder.path(), {.rank = 0, .world_size = 2, .timeout = absl::ZeroDuration()});
  CHECK(!met.ok());  // Nobody has come.
  CHECK(fuzz::Prints(met.status().message())) << met.status();
}

// As rank 1, of what answers its ask.
void ReadAnswer(const std::string& bytes) {
  const Folder folder;
  const std::string inside = folder.path() + "/folder";
  CHECK(MakePrivateFolder(inside).ok());
  CHECK(MakePrivateFolder(inside + "/run.1").ok());
  std::atomic<bool> done{false};
  std::thread rank_0([&] {
    while (!done.load()) {
      for (const std::string& name : NamesIn(inside)) {
        const std::string asker = name.substr(std::min(name.size(), name.rfind('.') + 1));
        if (name.compare(0, 4, "ask.") == 0) (void)WriteWhole(inside, absl::StrCat("answer.", asker), bytes);
      }
      std::this_thread::yield();
    }
  });
  const auto met = MeetInFolder(inside, {.rank = 1, .world_size = 2, .timeout = absl::Seconds(5)});
  done.store(true);
  rank_0.join();
  CHECK(!absl::IsDeadlineExceeded(met.status())) << met.status();
  CHECK(fuzz::Prints(met.status().message())) << met.status();
  if (met.ok()) CHECK_EQ(met->run_folder, inside + "/run.1");
  for (const std::string& name : NamesIn(folder.path())) CHECK_EQ(name, "folder");  // Nothing is written beside it.
}

}  // namespace
}  // namespace zeroshard::comm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace zeroshard::comm;  // NOLINT(google-build-using-namespace)
  return zeroshard::fuzz::FeedOneOf({&ReadValue, &AnswerAsk, &ReadAnswer}, data, size);
}

std::vector<std::string> zeroshard::fuzz::Seeds() {
  using namespace std::string_literals;  // NOLINT(google-build-using-namespace)
  return {
      "\0"
      "41"s,
      "\0"
      "-9223372036854775808"s,
      "\0"
      "9223372036854775807"s,
      "\1"
      "1.0123456789abcdef\n2"s,
      "\1"
      "1.0123456789abcdef\n3"s,
      "\1"
      "7.x\n2"s,
      "\2"
      "come run.1"s,
      "\2"
      "come ../beside"s,
      "\2"
      "come run.1/../../beside"s,
      "\2"
      "refused rank 1 speaks of 3 ranks"s};
}

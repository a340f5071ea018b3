// Which processes of a job on GPUs call CUDA, and what a profiler in them sees, on the doubles.
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "zeroshard/integration_tests/train/on_doubles.h"
#include "zeroshard/integration_tests/train/tool_process.h"

namespace zeroshard::integration_tests {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

std::vector<std::string> Small(const std::vector<std::string>& more) {
  static const std::string text = WriteFile("text.txt", SomeText(20'000));
  std::vector<std::string> flags = {"--device=cuda", "--data=" + text, "--tokenizer=bytes", "--layers=1",  "--heads=2",
                                    "--width=16",    "--context=8",    "--batch=2",         "--threads=1", "--sample=0"};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

std::vector<std::string> Lines(const std::string& path) { return absl::StrSplit(ReadFile(path), '\n', absl::SkipEmpty()); }

// With ranks of its own choice, and of the flags'.
TEST(LauncherOfRanksOnGpus, NeitherCallsCudaNorOpensItsLibrary) {
  for (const char* ranks : {"", "--nproc=2"}) {
    const std::string users = absl::StrCat(::testing::TempDir(), "/users", ranks);
    std::vector<std::string> flags = Small({"--backend=nccl", "--steps=1000000"});
    if (*ranks != '\0') flags.emplace_back(ranks);
    ToolProcess train("tools/train", flags, OnDoubles({"ZEROSHARD_DOUBLE_DEVICES=2", "ZEROSHARD_DOUBLE_USERS=" + users}));
    ASSERT_TRUE(train.AwaitError("step 1/")) << train.Errors();
    const std::vector<std::string> called = Lines(users);
    EXPECT_THAT(called, Not(Contains(absl::StrCat(train.pid()))));
    EXPECT_EQ(called.size(), 3u) << "the child that looked, and two ranks";
    const std::string library = "libzeroshard_cuda";
    const auto maps = [](pid_t pid) { return ReadFile(absl::StrCat("/proc/", pid, "/maps")); };
    EXPECT_THAT(maps(train.pid()), Not(HasSubstr(library)));
    ASSERT_EQ(train.Children().size(), 2u);
    for (const pid_t rank : train.Children()) {
      EXPECT_THAT(called, Contains(absl::StrCat(rank)));
      EXPECT_THAT(maps(rank), HasSubstr(library));
    }
  }
}

struct Ranges {
  std::vector<std::string> names;   // of all threads
  std::map<std::string, int> open;  // of each thread, in the end
};

Ranges RangesIn(const std::string& path) {
  Ranges ranges;
  for (const std::string& line : Lines(path)) {
    std::istringstream words(line);
    std::string process, thread, what, name;
    words >> process >> thread >> what;
    std::getline(words >> std::ws, name);
    int& open = ranges.open[thread];
    open += what == "push" ? 1 : -1;
    EXPECT_GE(open, 0) << line;
    if (what == "push") ranges.names.push_back(name);
  }
  return ranges;
}

Ranges Profiled(const std::string& name, const std::vector<std::string>& more) {
  const std::string seen = absl::StrCat(::testing::TempDir(), "/", name);
  const auto library = std::filesystem::current_path() / "integration_tests/train/libprofiler_double.so";
  std::vector<std::string> flags = Small({"--nproc=2", "--stage=2", "--steps=4"});
  flags.insert(flags.end(), more.begin(), more.end());
  const ToolResult result = RunTool(
      "tools/train", flags, OnDoubles({"NVTX_INJECTION64_PATH=" + library.string(), "PROFILER_DOUBLE_FILE=" + seen}));
  EXPECT_EQ(result.code, 0) << result.errors;
  return RangesIn(seen);
}

TEST(ProfilerOfRanksOnGpus, SeesSpansAsRangesOfTheThreadsThatQueueThemWhileTheyAreTraced) {
  const std::string trace = ::testing::TempDir() + "/run.trace.json";
  const Ranges ranges = Profiled("traced", {"--backend=nccl", "--trace=" + trace});
  EXPECT_THAT(ranges.names,
              IsSupersetOf({"forward block.0", "backward block.0", "optimizer", "reduce-scatter", "all-gather"}));
  for (const auto& [thread, open] : ranges.open) EXPECT_EQ(open, 0) << thread;
  // Each rank's own thread, and the one that calls NCCL.
  EXPECT_GE(ranges.open.size(), 4u);
}

TEST(ProfilerOfRanksOnGpus, SeesNothingWhereNothingIsTraced) {
  EXPECT_THAT(Profiled("untraced", {"--backend=nccl"}).names, ::testing::IsEmpty());
}

}  // namespace
}  // namespace zeroshard::integration_tests

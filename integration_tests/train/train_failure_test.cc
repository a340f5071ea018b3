// What goes wrong with a run, and what the user is told: bad input, lost ranks, signals, a full disk.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "zeroshard/integration_tests/train/tool_process.h"

namespace zeroshard::integration_tests {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> Long(const std::vector<std::string>& more) {
  static const std::string text = WriteFile("text.txt", SomeText(60'000));
  std::vector<std::string> flags = {"--data=" + text, "--layers=1",  "--heads=2",  "--width=32",     "--context=24",
                                    "--batch=2",      "--threads=1", "--sample=0", "--steps=100000", "--timeout=60"};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

void ExpectGone(const std::vector<pid_t>& processes) {
  for (const pid_t pid : processes) EXPECT_NE(kill(pid, 0), 0) << pid << " is still there";
}

void ExpectNoTrace(const ToolResult& result) {
  EXPECT_THAT(result.errors, Not(HasSubstr("*** ")));  // glog's stack traces
  EXPECT_THAT(result.errors, Not(HasSubstr("Check failed")));
  EXPECT_THAT(result.errors, Not(HasSubstr("terminate called")));
}

TEST(TrainRefuses, FlagsWithTheNearestChoice) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--stge=3"}, "did you mean --stage?"},
      {{"--stage=4"}, "must be between 0 and 3"},
      {{"--backend=glooo"}, "the nearest is --backend=gloo"},
      {{"--device=cude"}, "did you mean --device=cuda?"},
      {{"--heads=3", "--width=32"}, "the nearest that does is heads = 2"},
      {{"--warmup=9", "--steps=5"}, "--warmup=5 or less"},
      {{"--min_lr=1", "--lr=0.1"}, "--min_lr=0.1 or less"},
      {{"--partition=tensr"}, "did you mean --partition=tensor?"},
      {{"--metrics=/nonexistent/m"}, "/nonexistent/m"},
      {{"--flight_recorder=/nonexistent"},
       "cannot write into --flight_recorder=/nonexistent (No such file or directory): name a folder that is there"},
      {{"--flight_recorder=/dev/null"}, "cannot write into --flight_recorder=/dev/null (Not a directory)"},
      {{"--beta1=1"}, "below 1"},
      {{"stage=3"}, "--name=value"},
  };
  for (const auto& [flags, words] : cases) {
    const ToolResult result = RunTool("tools/train", Long(flags));
    EXPECT_EQ(result.code, 2) << flags[0];
    EXPECT_THAT(LastLine(result.errors), HasSubstr(words));
    EXPECT_EQ(result.output, "");
  }
}

TEST(TrainRefuses, AFolderForFlightRecordsThatIsNotThereAndMakesNone) {
  const std::string folder = ::testing::TempDir() + "/no_records";
  EXPECT_EQ(RunTool("tools/train", Long({"--flight_recorder=" + folder})).code, 2);
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST(TrainRefuses, ReportsOfStepsWhereOnlyTheirFloorIsMeasured) {
  const std::string path = ::testing::TempDir() + "/floor.report";
  for (const std::string& flag : {std::string("trace"), std::string("tensorboard")}) {
    const std::string config = WriteFile("told.json", "{\"zeroshard\": {\"" + flag + "\": \"" + path + "\"}}");
    for (const std::string& told : {"--" + flag + "=" + path, "--config=" + config}) {
      const ToolResult result = RunTool("tools/train", Long({"--step_floor", told}));
      EXPECT_EQ(result.code, 2) << result.errors;
      EXPECT_EQ(result.output, "");
      EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1) << result.errors;
      EXPECT_THAT(result.errors, AllOf(HasSubstr(path), HasSubstr("with --step_floor, which runs products alone")));
      EXPECT_FALSE(std::filesystem::exists(path));
    }
    const ToolResult floor =
        RunTool("tools/train", Long({"--step_floor", "--steps=1", "--config=" + config, "--" + flag + "="}));
    EXPECT_EQ(floor.code, 0) << floor.errors;
    EXPECT_THAT(floor.output, HasSubstr("floor_s_median"));
  }
}

TEST(TrainRefuses, GpusWhereTheirLibraryCannotBeOpened) {
  for (const char* flag : {"--backend=nccl", "--device=cuda"}) {
    const ToolResult result = RunTool("tools/train", Long({flag}), {"ZEROSHARD_CUDA_LIBRARY=/nonexistent.so"});
    EXPECT_EQ(result.code, 2) << flag;
    EXPECT_THAT(LastLine(result.errors), AllOf(HasSubstr("cannot open /nonexistent.so"), HasSubstr("LD_LIBRARY_PATH")));
  }
}

// Sixteen terabytes of states, and no rank is started.
TEST(TrainRefuses, ModelsThatThisMachineHasNoMemoryForWithTheTable) {
  for (const char* backend : {"--backend=gloo", "--backend=in_process"}) {
    const ToolResult result = RunTool("tools/train", Long({backend, "--width=65536", "--layers=20", "--nproc=2"}));
    EXPECT_EQ(result.code, 2) << result.errors;
    EXPECT_EQ(result.output, "");
    EXPECT_THAT(result.errors, AllOf(ContainsRegex("MB of a rank +needed +stage 0 +stage 1 +.stage 2 +stage 3"),
                                     ContainsRegex("moments +[1-9]"), Not(HasSubstr("[rank"))));
    EXPECT_THAT(LastLine(result.errors),
                ContainsRegex("^error: 2 ranks together need [0-9.]+ GB or more, and this machine has [0-9.]+ [GM]B left; "
                              "less is needed with --stage=3 .[0-9.]+ GB., "));
  }
}

TEST(TrainRefuses, DataByName) {
  const std::string tokens("\x01\x00\x02\x00\x58\x02\x01\x00", 8);
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--data=/nonexistent.txt"}, "/nonexistent.txt"},
      {{"--data=" + WriteFile("empty.txt", "")}, "empty.txt' is empty"},
      {{"--data=" + WriteFile("binary.txt", std::string("ab\0c", 4))}, "binary.txt, offset 2"},
      {{"--data=" + WriteFile("short.txt", "short")}, "fewer than one sequence"},
      {{"--data=" + WriteFile("beyond.bin", tokens), "--vocab=512", "--context=3"}, "beyond.bin, offset 4: token 600"},
  };
  for (const auto& [flags, words] : cases) {
    const ToolResult result = RunTool("tools/train", Long(flags));
    EXPECT_EQ(result.code, 2) << flags[0];
    EXPECT_THAT(LastLine(result.errors), HasSubstr(words));
  }
}

TEST(TrainRefuses, LaunchersThatDoNotFit) {
  const std::vector<std::string> launched = {"RANK=0", "WORLD_SIZE=2", "LOCAL_RANK=0"};
  const ToolResult homeless = RunTool("tools/train", Long({}), launched);
  EXPECT_EQ(homeless.code, 2);
  EXPECT_THAT(LastLine(homeless.errors), AllOf(HasSubstr("MASTER_ADDR is not"), HasSubstr("--store=tcp:HOST:PORT")));
  const ToolResult contradiction = RunTool("tools/train", Long({"--nproc=3", "--store=file:/tmp/x"}), launched);
  EXPECT_EQ(contradiction.code, 2);
  EXPECT_THAT(contradiction.errors, HasSubstr("leave --nproc out"));
  EXPECT_EQ(RunTool("tools/train", Long({}), {"RANK=x", "WORLD_SIZE=2"}).code, 2);
}

TEST(TrainLoses, AKilledRankAndAllEndWithItsName) {
  const std::string folder = ::testing::TempDir();
  ToolProcess train("tools/train", Long({"--nproc=3", "--flight_recorder=" + folder}));
  ASSERT_TRUE(train.AwaitError("step 1/"));
  const std::vector<pid_t> ranks = train.Children();
  ASSERT_EQ(ranks.size(), 3u);
  kill(ranks[1], SIGKILL);
  const auto killed = std::chrono::steady_clock::now();
  const ToolResult result = train.Wait();
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - killed).count(), 5);
  EXPECT_EQ(result.code, 4);
  EXPECT_THAT(LastLine(result.errors), AllOf(HasSubstr("rank 1 was killed by signal 9"),
                                             ContainsRegex("rank [02]: .*" + folder + "/flight_record.rank-[02].jsonl")));
  ExpectNoTrace(result);
  ExpectGone(ranks);
}

TEST(TrainLoses, AStoppedRankWithinTheDeadline) {
  ToolProcess train("tools/train", Long({"--timeout=2"}));
  ASSERT_TRUE(train.AwaitError("step 1/"));
  const std::vector<pid_t> ranks = train.Children();
  ASSERT_EQ(ranks.size(), 2u);
  kill(ranks[1], SIGSTOP);
  const ToolResult result = train.Wait(std::chrono::seconds(30));
  EXPECT_EQ(result.code, 4);
  EXPECT_THAT(LastLine(result.errors),
              AllOf(HasSubstr("rank 1 is missing (silent for "), HasSubstr("its last operation was ")));
  ExpectNoTrace(result);
  ExpectGone(ranks);
}

TEST(TrainLoses, ItsStarterAndNoRankStays) {
  std::vector<pid_t> ranks;
  {
    ToolProcess train("tools/train", Long({}));
    ASSERT_TRUE(train.AwaitError("step 1/"));
    ranks = train.Children();
    ASSERT_EQ(ranks.size(), 2u);
  }  // killed
  for (int i = 0; i < 200 && (kill(ranks[0], 0) == 0 || kill(ranks[1], 0) == 0); ++i) usleep(20'000);
  ExpectGone(ranks);
}

TEST(TrainIsInterrupted, AndEndsCleanly) {
  for (const auto& [signal, code] : {std::pair(SIGINT, 130), std::pair(SIGTERM, 143)}) {
    for (const char* backend : {"--backend=gloo", "--backend=in_process"}) {
      const std::string metrics = ::testing::TempDir() + "/interrupted.jsonl";
      ToolProcess train("tools/train", Long({backend, "--metrics=" + metrics}));
      ASSERT_TRUE(train.AwaitError("step 1/"));
      const std::vector<pid_t> ranks = train.Children();
      kill(train.pid(), signal);
      const ToolResult result = train.Wait(std::chrono::seconds(20));
      EXPECT_EQ(result.code, code) << backend << result.errors;
      EXPECT_THAT(result.errors, HasSubstr("interrupted after"));
      ExpectNoTrace(result);
      ExpectGone(ranks);
      const std::string lines = ReadFile(metrics);
      ASSERT_FALSE(lines.empty());
      EXPECT_EQ(lines.back(), '\n');
    }
  }
}

TEST(TrainIsInterrupted, AndLeavesNoFolderBehind) {
  const std::string folder = ::testing::TempDir() + "/own";
  std::filesystem::create_directories(folder);
  ToolProcess train("tools/train", Long({}), {"TMPDIR=" + folder});
  ASSERT_TRUE(train.AwaitError("step 1/"));
  kill(train.pid(), SIGINT);
  EXPECT_EQ(train.Wait(std::chrono::seconds(20)).code, 130);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

TEST(TrainGoesOn, WhereTheDiskIsFull) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full on this machine";
  const ToolResult result = RunTool("tools/train", Long({"--metrics=/dev/full", "--steps=5"}));
  EXPECT_EQ(result.code, 5) << result.errors;
  EXPECT_THAT(result.errors, AllOf(HasSubstr("training goes on"), HasSubstr("step 5/5")));
  EXPECT_THAT(LastLine(result.errors), AllOf(HasSubstr("/dev/full"), HasSubstr("No space left")));
}

TEST(TrainGoesOn, WhereNobodyReadsItsOutput) {
  const std::string metrics = ::testing::TempDir() + "/unread.jsonl";
  ToolProcess train("tools/train", Long({"--metrics=" + metrics, "--steps=200"}), {}, ToolProcess::ErrorsTo::kClosedPipe);
  EXPECT_EQ(train.Wait().code, 0);
  const std::string lines = ReadFile(metrics);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 200);
}

TEST(TrainGoesWrong, AndNamesRankAndTensor) {
  const ToolResult result =
      RunTool("tools/train", Long({"--lr=1e30", "--min_lr=1e30", "--warmup=0", "--clip=0", "--steps=50"}));
  EXPECT_EQ(result.code, 3) << result.errors;
  EXPECT_THAT(LastLine(result.errors), AllOf(HasSubstr("finite"), HasSubstr("transformer."), HasSubstr("rank 0")));
  ExpectNoTrace(result);
}

TEST(TrainGoesWrong, AndSaysSoOfASingleStepToo) {
  const ToolResult result = RunTool(
      "tools/train", Long({"--lr=1e30", "--min_lr=1e30", "--warmup=0", "--clip=0", "--steps=50", "--max_skipped=1"}));
  EXPECT_EQ(result.code, 3) << result.errors;
  EXPECT_THAT(LastLine(result.errors), ContainsRegex("step [0-9]+: the loss or the gradients are not finite .loss "));
}

}  // namespace
}  // namespace zeroshard::integration_tests

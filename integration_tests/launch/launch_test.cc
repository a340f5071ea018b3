// tools:launch as people run it: a program that is none of ours, on this machine and on two "hosts" over an ssh that is a script.

#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "zeroshard/integration_tests/train/tool_process.h"

namespace zeroshard::integration_tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

constexpr char kLaunch[] = "tools/launch_program";

std::vector<std::string> Lines(const std::string& text) { return absl::StrSplit(text, '\n', absl::SkipEmpty()); }

// An ssh that runs the command here, and notes what it was given.
std::string FakeSsh() {
  std::string path = WriteFile("ssh.sh", absl::StrCat("#!/bin/sh\necho \"$@\" >>", ::testing::TempDir(),
                                                      "/ssh.log\nfor command; do :; done\n[ \"$5\" = down ] && exit 255\n"
                                                      "exec sh -c \"$command\"\n"));
  chmod(path.c_str(), 0700);
  return path;
}

// Whether a process runs `program` with `argument` alone.
bool Runs(const std::string& program, const std::string& argument) {
  const std::string wanted = program + std::string(1, '\0') + argument + std::string(1, '\0');
  for (const auto& process : std::filesystem::directory_iterator("/proc")) {
    if (ReadFile(process.path().string() + "/cmdline") == wanted) return true;
  }
  return false;
}

TEST(Launch, TellsEachRankItsPlaceAndMarksWhatItSays) {
  const ToolResult result =
      RunTool(kLaunch, {"--nproc=3", "sh", "-c",
                        "echo \"$RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR $1\"; echo e$RANK >&2", "sh",
                        "it's $x"});
  EXPECT_EQ(result.code, 0) << result.errors;
  EXPECT_THAT(Lines(result.output),
              UnorderedElementsAre("[rank 0] 0/3 0/3 127.0.0.1 it's $x", "[rank 1] 1/3 1/3 127.0.0.1 it's $x",
                                   "[rank 2] 2/3 2/3 127.0.0.1 it's $x"));
  EXPECT_THAT(Lines(result.errors), UnorderedElementsAre("[rank 0] e0", "[rank 1] e1", "[rank 2] e2"));
}

TEST(Launch, LeavesTheMasterPortToTheProgram) {
  const ToolResult result = RunTool(
      kLaunch, {"--nproc=1", "--", "python3", "-c",
                "import os, socket; socket.create_server((os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT'])))"});
  EXPECT_EQ(result.code, 0) << result.errors;
}

TEST(Launch, EndsAllRanksWhenOneFailsAndGivesItsCode) {
  ToolProcess launch(kLaunch,
                     {"--nproc=3", "sh", "-c", "[ $RANK = 1 ] && { echo 'error: no luck' >&2; exit 7; }; exec sleep 100"});
  const ToolResult result = launch.Wait(std::chrono::seconds(20));
  EXPECT_EQ(result.code, 7);
  EXPECT_EQ(LastLine(result.errors), "launch: rank 1: no luck");
}

// Rank 1 ends when its starter has seen rank 0's end, and says what rank 0 heard of it alone.
TEST(Launch, QuotesTheRankThatTheFirstToEndBlames) {
  const std::string first = ::testing::TempDir() + "/first.pid";
  std::filesystem::remove(first);
  ToolProcess launch(
      kLaunch, {"--nproc=2", "sh", "-c",
                absl::StrCat("trap '' TERM; if [ $RANK = 0 ]; then echo $$ >", first, ".new; mv ", first, ".new ", first,
                             "; echo 'error: rank 0, barrier: rank 1 gave up: no' >&2; exit 4; fi; ", "until [ -e ", first,
                             " ]; do :; done; read pid <", first,
                             "; while kill -0 $pid 2>/dev/null; do :; done; echo 'error: no luck' >&2; exit 4")});
  const ToolResult result = launch.Wait(std::chrono::seconds(20));
  EXPECT_EQ(result.code, 4);
  EXPECT_EQ(LastLine(result.errors), "launch: rank 1: no luck");
}

TEST(Launch, RefusesWhatItCannotStart) {
  EXPECT_EQ(RunTool(kLaunch, {}).code, 2);
  EXPECT_EQ(RunTool(kLaunch, {"--nproc=0", "true"}).code, 2);
  EXPECT_EQ(RunTool(kLaunch, {"--hosts=-oProxyCommand=x", "true"}).code, 2);
  const ToolResult result = RunTool(kLaunch, {"--nproc=1", "/nonexistent/program"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(LastLine(result.errors), AllOf(HasSubstr("/nonexistent/program"), HasSubstr("No such file")));
}

TEST(LaunchOverSsh, StartsRanksOnEachHostAndShowsNobodyTheToken) {
  std::filesystem::remove(::testing::TempDir() + "/ssh.log");
  const ToolResult result = RunTool(
      kLaunch,
      {"--hosts=node1,me@node2", "--nproc=2", "--ssh=" + FakeSsh(), "--master_port=29511", "sh", "-c",
       "echo \"$RANK/$WORLD_SIZE $LOCAL_RANK $MASTER_ADDR:$MASTER_PORT $1 ${#ZEROSHARD_TOKEN}\"; echo $ZEROSHARD_TOKEN >&2",
       "sh", "it's \"$x\" ; \\"});
  EXPECT_EQ(result.code, 0) << result.errors;
  EXPECT_THAT(Lines(result.output), UnorderedElementsAre("[rank 0] 0/4 0 node1:29511 it's \"$x\" ; \\ 32",
                                                         "[rank 1] 1/4 1 node1:29511 it's \"$x\" ; \\ 32",
                                                         "[rank 2] 2/4 0 node1:29511 it's \"$x\" ; \\ 32",
                                                         "[rank 3] 3/4 1 node1:29511 it's \"$x\" ; \\ 32"));
  const std::string token = LastLine(result.errors).substr(std::string("[rank 0] ").size());
  ASSERT_EQ(token.size(), 32U);
  const std::string log = ReadFile(::testing::TempDir() + "/ssh.log");
  EXPECT_THAT(log, AllOf(HasSubstr("-- node1 "), HasSubstr("-- me@node2 "), Not(HasSubstr(token))));
}

TEST(LaunchOverSsh, NamesTheHostThatIsNotReached) {
  ToolProcess launch(kLaunch, {"--hosts=up,down", "--nproc=1", "--ssh=" + FakeSsh(), "sleep", "100"});
  const ToolResult result = launch.Wait(std::chrono::seconds(20));
  EXPECT_EQ(result.code, 4);
  EXPECT_THAT(LastLine(result.errors), AllOf(HasSubstr("rank 1 on down"), HasSubstr("255")));
}

TEST(LaunchOverSsh, EndsRanksThereWhenItIsInterruptedOrKilled) {
  for (const int signal : {SIGINT, SIGKILL}) {
    const std::string mark = absl::StrCat("31", getpid(), signal);
    ToolProcess launch(kLaunch, {"--hosts=a,b", "--nproc=1", "--ssh=" + FakeSsh(), "sh", "-c",
                                 absl::StrCat("echo started >&2; exec sleep ", mark)});
    ASSERT_TRUE(launch.AwaitError("[rank 0] started"));
    ASSERT_TRUE(launch.AwaitError("[rank 1] started"));
    kill(launch.pid(), signal);
    const ToolResult result = launch.Wait(std::chrono::seconds(20));
    EXPECT_EQ(result.code, signal == SIGINT ? 130 : 128 + SIGKILL) << result.errors;
    for (int i = 0; Runs("sleep", mark) && i < 100; ++i) usleep(50000);
    EXPECT_FALSE(Runs("sleep", mark));
  }
}

}  // namespace
}  // namespace zeroshard::integration_tests

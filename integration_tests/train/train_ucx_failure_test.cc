// Training over UCX that loses a rank: over shared memory, and over TCP as between hosts.
#include <csignal>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "zeroshard/integration_tests/train/tool_process.h"

namespace zeroshard::integration_tests {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kVictim = 1;

struct Ways {
  const char* name;
  std::vector<std::string> environment;
};

class TrainOverUcx : public ::testing::TestWithParam<Ways> {
 protected:
  // Three ranks, which train until something happens to them.
  static std::vector<std::string> Flags(const std::string& timeout) {
    return {"--backend=ucx", "--nproc=3",    "--data=" + WriteFile("text.txt", SomeText(60'000)),
            "--stage=2",     "--layers=1",   "--heads=2",
            "--width=32",    "--context=24", "--batch=2",
            "--threads=1",   "--sample=0",   "--steps=1000000",
            timeout};
  }
  // Sends the victim a signal while all ranks train, and waits for the end of the run.
  static ToolResult Lose(ToolProcess& train, int signal) {
    EXPECT_TRUE(train.AwaitError("step 1/")) << train.Errors();
    const std::vector<pid_t> ranks = train.Children();
    EXPECT_EQ(ranks.size(), 3u);
    if (ranks.size() == 3) kill(ranks[kVictim], signal);
    const ToolResult result = train.Wait();
    for (const pid_t pid : ranks) EXPECT_NE(kill(pid, 0), 0) << pid << " is still there";
    return result;
  }
};

TEST_P(TrainOverUcx, NamesAKilledRankInItsLastLine) {
  ToolProcess train("tools/train", Flags("--timeout=60"), GetParam().environment);
  const ToolResult result = Lose(train, SIGKILL);
  EXPECT_EQ(result.code, 4) << result.errors;
  EXPECT_THAT(LastLine(result.errors), HasSubstr("rank 1 was killed by signal 9"));
  EXPECT_THAT(result.errors, Not(HasSubstr("Check failed")));
}

TEST_P(TrainOverUcx, NamesAStoppedRankInItsLastLine) {
  ToolProcess train("tools/train", Flags("--timeout=3"), GetParam().environment);
  const ToolResult result = Lose(train, SIGSTOP);
  EXPECT_EQ(result.code, 4) << result.errors;
  EXPECT_THAT(LastLine(result.errors), AllOf(ContainsRegex("rank 1 (is missing|does not answer)"),
                                             Not(ContainsRegex("rank [02] (is missing|does not)"))));
  EXPECT_THAT(result.errors, Not(HasSubstr("Check failed")));
}

std::string NameOf(const ::testing::TestParamInfo<Ways>& ways) { return ways.param.name; }

INSTANTIATE_TEST_SUITE_P(Ways, TrainOverUcx, ::testing::Values(Ways{"SharedMemory", {}}, Ways{"Tcp", {"UCX_TLS=tcp"}}),
                         NameOf);

}  // namespace
}  // namespace zeroshard::integration_tests

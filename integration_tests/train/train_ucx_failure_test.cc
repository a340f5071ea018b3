// Training over UCX that loses a rank: over shared memory, and over TCP as between hosts.
#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "zeroshard/integration_tests/train/tool_process.h"

namespace zeroshard::integration_tests {
namespace {

using Json = nlohmann::json;
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
  // What a survivor of a rank that was killed has written.
  static void ExpectFlightRecord(int rank) {
    const std::string text = ReadFile(absl::StrCat(::testing::TempDir(), "/flight_record.rank-", rank, ".jsonl"));
    std::vector<Json> lines;
    for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
      lines.push_back(Json::parse(line, nullptr, false));
    }
    ASSERT_GT(lines.size(), 2U) << "rank " << rank;
    EXPECT_EQ(lines[0]["rank"], rank);
    EXPECT_EQ(lines[0]["world_size"], 3);
    EXPECT_THAT(lines[0]["cause"].get<std::string>(), HasSubstr("rank 1 is gone"));
    uint64_t before = 0;
    for (size_t i = 1; i < lines.size(); ++i) {
      const auto sequence = lines[i]["sequence"].get<uint64_t>();
      EXPECT_GT(sequence, before);
      before = sequence;
    }
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
  std::vector<std::string> flags = Flags("--timeout=60");
  flags.push_back("--flight_recorder=" + ::testing::TempDir());
  ToolProcess train("tools/train", flags, GetParam().environment);
  const ToolResult result = Lose(train, SIGKILL);
  EXPECT_EQ(result.code, 4) << result.errors;
  EXPECT_THAT(LastLine(result.errors),
              AllOf(HasSubstr("rank 1 was killed by signal 9"), HasSubstr("rank 1 is gone"),
                    ContainsRegex("its last operation was [a-z-]+ #[0-9]+ '[A-Za-z._0-9 ]+' .*elements"),
                    HasSubstr(::testing::TempDir() + "/flight_record.rank-")));
  EXPECT_THAT(result.errors, Not(HasSubstr("Check failed")));
  for (const int survivor : {0, 2}) ExpectFlightRecord(survivor);
}

TEST_P(TrainOverUcx, NamesWhatAKilledRankDidLastWhereRanksMetInAFile) {
  std::vector<std::string> flags = Flags("--timeout=60");
  flags.push_back("--store=file:" + ::testing::TempDir() + "/meeting");
  ToolProcess train("tools/train", flags, GetParam().environment);
  const ToolResult result = Lose(train, SIGKILL);
  EXPECT_EQ(result.code, 4) << result.errors;
  EXPECT_THAT(LastLine(result.errors),
              AllOf(HasSubstr("rank 1 is gone"), ContainsRegex("its last operation was [a-z-]+ #[0-9]+ '")));
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

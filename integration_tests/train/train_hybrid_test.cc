// Whole runs of tools:train that shard within groups of ranks: the same bits as without, bytes as predicted, and a rank that is lost
// is named as all know it.
#include <chrono>
#include <csignal>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "zeroshard/integration_tests/train/tool_process.h"

namespace zeroshard::integration_tests {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;
using Flags = std::vector<std::string>;

Flags Small(const Flags& more, int steps = 4) {
  static const std::string text = WriteFile("text.txt", SomeText(60'000));
  Flags flags = {"--data=" + text, "--layers=2",  "--heads=2",  "--width=32",   "--context=24",
                 "--batch=2",      "--threads=1", "--sample=0", "--timeout=60", absl::StrCat("--steps=", steps)};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

Json Summary(Flags more) {
  const std::string path = ::testing::TempDir() + "/summary.json";
  more.push_back("--summary=" + path);
  const ToolResult result = RunTool("tools/train", Small(more));
  EXPECT_EQ(result.code, 0) << result.errors;
  return Json::parse(ReadFile(path), nullptr, false);
}

void ExpectAsPredicted(const Json& summary) {
  for (const Json& rank : summary["ranks"]) {
    for (const auto& [use, line] : rank["ledger"].items()) {
      if (use == "activations" || use == "data") continue;
      EXPECT_EQ(line["now"], line["predicted"]) << use;
    }
    EXPECT_GT(rank["wire"]["data_bytes_per_step"], 0);
    EXPECT_EQ(rank["wire"]["data_bytes_per_step"], rank["wire"]["predicted_data_bytes_per_step"]);
    EXPECT_EQ(rank["allocations"]["step_3"], 0);
    EXPECT_EQ(rank["allocations"]["last_step"], 0);
  }
}

TEST(TrainHybrid, HasTheBitsOfOneGroupOverGlooAndUcx) {
  const Json whole = Summary({"--backend=in_process", "--nproc=4", "--stage=2"});
  const Json whole_bf16 = Summary({"--backend=in_process", "--nproc=4", "--stage=2", "--dtype=bf16"});
  const int64_t psi = whole["ranks"][0]["ledger"]["moments"]["now"].get<int64_t>() / 8 * 4;
  for (const char* backend : {"--backend=gloo", "--backend=ucx"}) {
    const Json two = Summary({backend, "--nproc=4", "--stage=2", "--shard_size=2"});
    EXPECT_EQ(two["bits"], whole["bits"]) << backend;
    EXPECT_EQ(two["ranks"][3]["ledger"]["moments"]["now"], 8 * psi / 2);
    ExpectAsPredicted(two);
    const Json three = Summary({backend, "--nproc=4", "--stage=3", "--shard_size=2", "--dtype=bf16", "--partition=tensor"});
    EXPECT_EQ(three["bits"], whole_bf16["bits"]) << backend;
    ExpectAsPredicted(three);
  }
}

TEST(TrainHybrid, NamesALostRankAsAllKnowIt) {
  ToolProcess train("tools/train", Small({"--nproc=4", "--stage=3", "--shard_size=2"}, 1'000'000));
  ASSERT_TRUE(train.AwaitError("step 1/")) << train.Errors();
  const std::vector<pid_t> ranks = train.Children();
  ASSERT_EQ(ranks.size(), 4u);
  kill(ranks[3], SIGKILL);
  const auto killed = std::chrono::steady_clock::now();
  const ToolResult result = train.Wait();
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - killed).count(), 10);
  EXPECT_EQ(result.code, 4);
  EXPECT_THAT(LastLine(result.errors), HasSubstr("rank 3"));
  EXPECT_THAT(result.errors, Not(HasSubstr("rank 1 is gone")));
}

TEST(TrainHybrid, NamesAStoppedRankAsAllKnowIt) {
  ToolProcess train("tools/train", Small({"--nproc=4", "--stage=3", "--shard_size=2", "--timeout=3"}, 1'000'000));
  ASSERT_TRUE(train.AwaitError("step 1/")) << train.Errors();
  const std::vector<pid_t> ranks = train.Children();
  ASSERT_EQ(ranks.size(), 4u);
  kill(ranks[2], SIGSTOP);
  const ToolResult result = train.Wait(std::chrono::seconds(30));
  EXPECT_EQ(result.code, 4) << result.errors;
  EXPECT_THAT(LastLine(result.errors), HasSubstr("rank 2 is missing (silent for "));
}

TEST(TrainHybrid, SizesAndSumsThatDoNotFitAreRefusedBeforeRanksStart) {
  const auto refused = [](const Flags& flags, const std::string& words) {
    const ToolResult result = RunTool("tools/train", Small(flags));
    EXPECT_EQ(result.code, 2) << result.errors;
    EXPECT_THAT(LastLine(result.errors), HasSubstr(words));
    EXPECT_THAT(result.errors, Not(HasSubstr("step 1")));
    EXPECT_THAT(result.errors, Not(HasSubstr("rank 0"))) << "one line, of the parent";
  };
  refused({"--nproc=4", "--shard_size=3"},
          "shard_size is 3 on 4 ranks; it divides their number: 1, 2, 4, or 0 for all of them");
  refused({"--nproc=2", "--shard_size=4"}, "shard_size is 4 on 2 ranks");
  refused({"--nproc=2", "--shard_size=-1"}, "--shard_size");
  refused({"--nproc=6", "--shard_size=3", "--world_invariant"}, "sums within 3 ranks are no subtrees");
  refused({"--nproc=3", "--accumulation=2", "--world_invariant"}, "world_invariant on 3 ranks with accumulation 2");
  const ToolResult launched =
      RunTool("tools/train", Small({"--accumulation=2", "--world_invariant", "--store=file:/nonexistent"}),
              {"RANK=0", "WORLD_SIZE=6", "LOCAL_RANK=0"});
  EXPECT_EQ(launched.code, 2) << launched.errors;
  EXPECT_THAT(LastLine(launched.errors), HasSubstr("world_invariant on 6 ranks with accumulation 2"));
}

}  // namespace
}  // namespace zeroshard::integration_tests

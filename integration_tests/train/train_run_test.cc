// Whole runs of tools:train over real processes: what they write, and that their bits depend on nothing but the numbers.
#include <filesystem>
#include <set>
#include <sstream>
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
using Json = nlohmann::json;

std::vector<std::string> Small(const std::vector<std::string>& more, int steps = 6) {
  static const std::string text = WriteFile("text.txt", SomeText(60'000));
  std::vector<std::string> flags = {
      "--data=" + text, "--layers=2",  "--heads=2",  "--width=32",   "--context=24",
      "--batch=3",      "--threads=1", "--sample=0", "--timeout=60", absl::StrCat("--steps=", steps)};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

// Of a run with these flags besides.
Json Summary(std::vector<std::string> more, int steps = 6) {
  const std::string path = ::testing::TempDir() + "/summary.json";
  more.push_back("--summary=" + path);
  const ToolResult result = RunTool("tools/train", Small(more, steps));
  EXPECT_EQ(result.code, 0) << result.errors;
  return Json::parse(ReadFile(path), nullptr, false);
}

TEST(Train, MetricsHaveOneObjectAStepAndTheLossFalls) {
  const std::string path = ::testing::TempDir() + "/metrics.jsonl";
  const ToolResult result = RunTool("tools/train", Small({"--metrics=" + path, "--lr=1e-2"}, 30));
  ASSERT_EQ(result.code, 0) << result.errors;
  std::istringstream lines(ReadFile(path));
  std::string line;
  std::vector<Json> steps;
  while (std::getline(lines, line)) steps.push_back(Json::parse(line, nullptr, false));
  ASSERT_EQ(steps.size(), 30u);
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i]["step"], i);
    EXPECT_EQ(steps[i]["tokens"], (i + 1) * 2 * 3 * 24);
    EXPECT_EQ(steps[i]["skipped"], false);
    EXPECT_GT(steps[i]["grad_norm"], 0);
    EXPECT_LE(steps[i]["clip_factor"], 1);
  }
  EXPECT_NEAR(steps.front()["loss"].get<double>(), 5.55, 0.1);  // ln 256
  EXPECT_LT(steps.back()["loss"].get<double>(), 3.5);
  EXPECT_LT(steps.front()["lr"], steps[10]["lr"]);
  EXPECT_LT(steps.back()["lr"], steps[10]["lr"]);
  EXPECT_THAT(result.errors, HasSubstr("step 30/30  loss"));
  EXPECT_THAT(result.output, HasSubstr("stage 3"));  // the table
}

TEST(Train, SummaryHoldsLedgerWireAndAllocations) {
  const Json summary = Summary({"--stage=3"}, 8);
  EXPECT_EQ(summary["backend"], "gloo");
  EXPECT_EQ(summary["stage"], 3);
  EXPECT_EQ(summary["world_size"], 2);
  EXPECT_EQ(summary["steps"], 8);
  EXPECT_EQ(summary["parameters"], 256 * 32 + 24 * 32 + 2 * (12 * 32 * 32 + 13 * 32) + 2 * 32);
  EXPECT_EQ(summary["bits"].get<std::string>().size(), 16u);
  ASSERT_EQ(summary["ranks"].size(), 2u);
  for (const Json& rank : summary["ranks"]) {
    EXPECT_EQ(rank["allocations"]["step_3"], 0);
    EXPECT_EQ(rank["allocations"]["last_step"], 0);
    EXPECT_LT(std::abs(rank["allocations"]["heap_growth_bytes"].get<int64_t>()), 64 << 10);
    EXPECT_EQ(rank["wire"]["data_bytes_per_step"], rank["wire"]["predicted_data_bytes_per_step"]);
    EXPECT_GT(rank["wire"]["control_bytes_per_step"], 0);
    EXPECT_GT(rank["peak_rss_bytes"], 1 << 20);
    for (const auto& [use, line] : rank["ledger"].items()) EXPECT_EQ(line["now"], line["predicted"]) << use;
  }
  EXPECT_NE(summary["ranks"][0]["pid"], summary["ranks"][1]["pid"]);
}

TEST(Train, BitsAreTheSameInEveryStagePartitionBackendAndBucket) {
  std::set<std::string> bits;
  for (int stage = 0; stage < 4; ++stage) {
    for (const char* partition : {"flat", "tensor"}) {
      bits.insert(Summary({absl::StrCat("--stage=", stage), absl::StrCat("--partition=", partition)})["bits"]);
    }
  }
  bits.insert(Summary({"--stage=3", "--backend=in_process"})["bits"]);
  bits.insert(Summary({"--stage=2", "--reduce_bucket_size=1000", "--nooverlap"})["bits"]);
  bits.insert(Summary({"--stage=1", "--noreduce_scatter", "--round_robin_gradients"})["bits"]);
  bits.insert(Summary({"--stage=3", "--keep_parameters", "--prefetch=2"})["bits"]);
  EXPECT_EQ(bits.size(), 1u) << Json(bits);
}

TEST(Train, BitsOfTwoByteRunsAreTheSameInEveryStagePartitionAndBackend) {
  for (const char* dtype : {"--dtype=bf16", "--dtype=fp16"}) {
    std::set<std::string> bits;
    for (int stage = 0; stage < 4; ++stage) {
      bits.insert(Summary(
          {dtype, absl::StrCat("--stage=", stage), stage % 2 == 0 ? "--partition=flat" : "--partition=tensor"}, 4)["bits"]);
    }
    bits.insert(Summary({dtype, "--stage=3", "--backend=in_process"}, 4)["bits"]);
    bits.insert(Summary({dtype, "--stage=3", "--backend=ucx"}, 4)["bits"]);
    bits.insert(Summary({dtype, "--stage=1", "--reduce_bucket_size=1000", "--nooverlap"}, 4)["bits"]);
    EXPECT_EQ(bits.size(), 1u) << dtype << Json(bits);
  }
}

TEST(Train, SeedIsHonoured) {
  const std::string seven = Summary({"--seed=7", "--backend=in_process"})["bits"];
  EXPECT_EQ(seven, Summary({"--seed=7", "--backend=in_process"})["bits"]);
  EXPECT_NE(seven, Summary({"--seed=8", "--backend=in_process"})["bits"]);
}

TEST(Train, FourMicroBatchesAreOneBatchOfFourTimesTheSize) {
  // One rank has the same bits in every stage: OneRankAndFiveRanks.
  const Json together = Summary({"--nproc=1", "--batch=12"}, 3);
  for (const char* stage : {"--stage=0", "--stage=1", "--stage=2", "--stage=3"}) {
    const Json apart = Summary({stage, "--nproc=1", "--accumulation=4", "--backend=in_process"}, 3);
    EXPECT_NEAR(apart["last_loss"].get<double>() / together["last_loss"].get<double>(), 1, 1e-6) << stage;
    const Json overlapped = Summary({stage, "--nproc=2", "--accumulation=2", "--overlap", "--batch=3"}, 3);
    EXPECT_NEAR(overlapped["last_loss"].get<double>() / together["last_loss"].get<double>(), 1, 1e-6) << stage;
  }
}

TEST(Train, DataThatDoesNotDivideGoesOnIntoTheNextEpoch) {
  // 7 sequences of 24, 3 ranks of 3 rows: a step takes more than an epoch.
  const std::string path = WriteFile("few.txt", SomeText(200).substr(0, 7 * 24 + 1));
  const Json summary = Summary({"--data=" + path, "--nproc=3", "--stage=2"}, 5);
  EXPECT_EQ(summary["steps"], 5);
  EXPECT_GT(summary["last_loss"], 0);
}

TEST(Train, OneRankAndFiveRanks) {
  EXPECT_EQ(Summary({"--nproc=1", "--stage=3"}, 3)["bits"], Summary({"--nproc=1", "--stage=0"}, 3)["bits"]);
  const Json five = Summary({"--nproc=5", "--stage=3", "--backend=in_process"}, 3);
  EXPECT_EQ(five["world_size"], 5);
  EXPECT_EQ(five["bits"], Summary({"--nproc=5", "--stage=1"}, 3)["bits"]);
  EXPECT_TRUE(five["ranks"][1]["peak_rss_bytes"].is_null());
}

TEST(Train, RanksOfAnotherLauncherMeetInAFileAndTakeRankZerosSeed) {
  const std::string path = ::testing::TempDir() + "/launched.json";
  const std::string store = "--store=file:" + ::testing::TempDir() + "/meeting";
  const std::vector<std::string> world = {"WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2"};
  ToolProcess one("tools/train", Small({store, "--seed=8"}), {"RANK=1", "LOCAL_RANK=1", world[0], world[1]});
  ToolProcess zero("tools/train", Small({store, "--seed=7", "--summary=" + path}),
                   {"RANK=0", "LOCAL_RANK=0", world[0], world[1]});
  const ToolResult first = zero.Wait(), second = one.Wait();
  EXPECT_EQ(first.code, 0) << first.errors;
  EXPECT_EQ(second.code, 0) << second.errors;
  EXPECT_EQ(second.output, "");
  EXPECT_EQ(Json::parse(ReadFile(path), nullptr, false)["bits"], Summary({"--seed=7"})["bits"]);
}

TEST(Train, RanksWithOtherFlagsAreToldSo) {
  const std::string store = "--store=file:" + ::testing::TempDir() + "/disagreement";
  ToolProcess one("tools/train", Small({store, "--lr=0.5"}), {"RANK=1", "WORLD_SIZE=2"});
  ToolProcess zero("tools/train", Small({store}), {"RANK=0", "WORLD_SIZE=2"});
  for (const ToolResult& result : {zero.Wait(), one.Wait()}) {
    EXPECT_EQ(result.code, 4);
    EXPECT_THAT(LastLine(result.errors),
                HasSubstr("rank 1 was not given rank 0's flags or data: it has --lr=0.5 where rank 0 has "
                          "--lr=0.002; give every rank the same"));
  }
}

TEST(Train, TwoRunsOnOneMachineDoNotMeet) {
  ToolProcess one("tools/train", Small({"--seed=1"})), other("tools/train", Small({"--seed=2"}));
  EXPECT_EQ(one.Wait().code, 0);
  EXPECT_EQ(other.Wait().code, 0);
}

TEST(Train, ListsEveryParametersDecay) {
  const ToolResult result = RunTool("tools/train", Small({"--list_parameters", "--weight_decay=0.25"}));
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.output, ::testing::ContainsRegex("mlp.c_fc.weight +128 x 32 +4096 +0  1 +0.25"));
  EXPECT_THAT(result.output, ::testing::ContainsRegex("ln_f.bias +32 +32 +1  1 +0\n"));
}

TEST(Train, ListsParametersAndWritesNoReport) {
  const std::string path = ::testing::TempDir() + "/listed";
  for (const char* flag : {"trace", "tensorboard", "metrics", "summary"}) {
    const ToolResult result = RunTool("tools/train", Small({"--list_parameters", absl::StrCat("--", flag, "=", path)}));
    EXPECT_EQ(result.code, 0) << result.errors;
    EXPECT_THAT(result.output, HasSubstr("mlp.c_fc.weight"));
    EXPECT_FALSE(std::filesystem::exists(path)) << flag;
  }
}

TEST(Train, SampledTextComesAtTheEnd) {
  for (const char* stage : {"--stage=0", "--stage=3"}) {
    const ToolResult result = RunTool("tools/train", Small({"--sample=40", stage}, 3));
    ASSERT_EQ(result.code, 0) << result.errors;
    EXPECT_THAT(result.output, HasSubstr("sampled from the model:"));
    EXPECT_GT(result.output.size(), 600u);
  }
}

TEST(Train, RelativePathsAreTheUsers) {
  const std::string name = "relative_summary.json";
  const ToolResult result =
      RunTool("tools/train", Small({"--summary=" + name}, 3), {"BUILD_WORKING_DIRECTORY=" + ::testing::TempDir()});
  ASSERT_EQ(result.code, 0) << result.errors;
  EXPECT_FALSE(Json::parse(ReadFile(::testing::TempDir() + "/" + name), nullptr, false).is_discarded());
}

}  // namespace
}  // namespace zeroshard::integration_tests

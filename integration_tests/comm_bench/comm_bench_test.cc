// tools:comm_bench as people and scripts run it.

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "zeroshard/integration_tests/train/tool_process.h"

namespace zeroshard::integration_tests {
namespace {

ToolResult RunBench(const std::vector<std::string>& arguments) { return RunTool("tools/comm_bench", arguments); }

std::vector<nlohmann::json> Lines(std::istream& text) {
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

class CommBench : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(CommBench, CommBench, ::testing::Values("gloo", "ucx", "in_process"),
                         [](const auto& instance) { return std::string(instance.param); });

TEST_P(CommBench, VerifiesEveryCollectiveOnThreeRanks) {
  for (const char* memory : {"registered", "heap"}) {
    for (const char* in_place : {"--in_place", "--noin_place"}) {
      const ToolResult result =
          RunBench({absl::StrCat("--backend=", GetParam()), "--nproc=3", "--sizes=1,1000,300000", "--dtype=bf16",
                    absl::StrCat("--memory=", memory), in_place, "--iterations=3", "--json=-"});
      ASSERT_EQ(result.code, 0) << result.errors;
      std::istringstream output(result.output);
      const std::vector<nlohmann::json> lines = Lines(output);
      ASSERT_EQ(lines.size(), 5u * 3 + 1) << result.output;
      for (const nlohmann::json& line : lines) {
        EXPECT_EQ(line["verified"], true) << line;
        EXPECT_EQ(line["in_place"], std::string(in_place) == "--in_place") << line;
        EXPECT_GT(line["us_min"], 0) << line;
        EXPECT_GE(line["us_median"], line["us_min"]) << line;
        EXPECT_GE(line["us_max"], line["us_median"]) << line;
        EXPECT_GE(line["algbw_GBps"], 0) << line;
        EXPECT_GE(line["busbw_GBps"], 0) << line;
      }
      EXPECT_EQ(lines.back()["op"], "barrier");
    }
  }
}

TEST(CommBenchOutput, WritesTheTableAndTheFile) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/bench.jsonl");
  const ToolResult result =
      RunBench({"--backend=in_process", "--ops=all_reduce,barrier", "--sizes=4096", "--iterations=5", "--json=" + path});
  ASSERT_EQ(result.code, 0) << result.errors;
  EXPECT_TRUE(absl::StrContains(result.output, "all_reduce         4096         1024   fp32")) << result.output;
  std::ifstream file(path);
  const std::vector<nlohmann::json> lines = Lines(file);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["op"], "all_reduce");
  EXPECT_EQ(lines[0]["bytes"], 4096);
  EXPECT_EQ(lines[0]["iterations"], 5);
}

TEST(CommBenchFlags, SaysWhatIsWrong) {
  const struct {
    const char* flag;
    const char* said;
  } cases[] = {{"--ops=allreduce", "the nearest is all_reduce"},
               {"--sizes=4,,8", "--sizes has ''"},
               {"--sizes=-1", "--sizes has '-1'"},
               {"--backend=ucz", "--backend=ucx"},
               {"--dtype=uint8", "uint8 is only gathered and broadcast"},
               {"--json=/no/such/folder/x", "/no/such/folder/x"},
               {"nonsense", "'nonsense' is no flag"}};
  for (const auto& c : cases) {
    const ToolResult result = RunBench({c.flag});
    EXPECT_EQ(result.code, 2) << c.flag << ": " << result.errors;
    EXPECT_TRUE(absl::StrContains(result.errors, c.said)) << c.flag << ": " << result.errors;
    EXPECT_TRUE(result.output.empty()) << result.output;
  }
}

TEST(CommBenchRefuses, WhatThisMachinesMemoryCannotHold) {
  for (const char* backend : {"--backend=gloo", "--backend=in_process"}) {
    const ToolResult result = RunBench({backend, "--nproc=3", "--ops=barrier,all_gather", "--sizes=4,1000000000000"});
    EXPECT_EQ(result.code, 2) << result.errors;
    EXPECT_EQ(result.output, "");
    EXPECT_TRUE(absl::StrContains(result.errors, "predicted")) << result.errors;
    const std::string last = LastLine(result.errors);
    EXPECT_TRUE(absl::StartsWith(last, "error: 3 ranks together need 6000.0 GB or more, and this machine has ")) << last;
    EXPECT_TRUE(absl::EndsWith(last, "; less is needed with smaller --sizes, fewer ranks on this machine")) << last;
  }
}

}  // namespace
}  // namespace zeroshard::integration_tests

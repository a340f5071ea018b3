// Reference runs, computed by PyTorch in float64, through tools:golden on doubles of GPUs and of NCCL: every stage, one to four ranks, over
// NCCL's exchanges and over gloo. The bounds are those that a GPU is held to (tools/gpu_check.sh).
#include <filesystem>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "zeroshard/integration_tests/train/on_doubles.h"
#include "zeroshard/integration_tests/train/tool_process.h"

namespace zeroshard::integration_tests {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using Json = nlohmann::json;
using Flags = std::vector<std::string>;

constexpr int kStages = 4;

ToolResult RunGolden(const std::string& name, const Flags& flags, const std::vector<std::string>& environment = {}) {
  Flags arguments = {"integration_tests/testdata/golden/" + name, "--threads=1", "--timeout=60", "--device=cuda"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  return RunTool("tools/golden", arguments, OnDoubles(environment));
}

// The run's bits, which is within the bounds.
std::string BitsOf(const std::string& name, const Flags& flags) {
  const ToolResult result = RunGolden(name, flags);
  EXPECT_EQ(result.code, 0) << result.errors;
  const Json run = Json::parse(result.output, nullptr, false);
  if (!run.is_object()) return absl::StrCat("no bits: ", result.output);
  EXPECT_LE(run["max_relative_loss_error"], 4e-7) << run;
  EXPECT_LE(run["max_relative_norm_error"], 1e-6) << run;
  EXPECT_LE(run["max_weight_error"], 3e-5) << run;
  return run["bits"].get<std::string>();
}

std::string Stage(int stage) { return absl::StrCat("--stage=", stage); }
std::string Ranks(int ranks) { return absl::StrCat("--nproc=", ranks); }

class GoldenOnDoubles : public ::testing::TestWithParam<int> {};

TEST_P(GoldenOnDoubles, IsReachedInEveryStageOverNcclAndGlooWithTheSameBits) {
  std::set<std::string> bits;
  for (int stage = 0; stage < kStages; ++stage) {
    const std::string partition = stage % 2 == 0 ? "--partition=tensor" : "--partition=flat";
    for (const Flags& flags : {Flags{"--backend=nccl", "--reduction=tree"}, Flags{"--backend=gloo"}}) {
      Flags all = flags;
      all.insert(all.end(), {Stage(stage), Ranks(GetParam()), partition});
      bits.insert(BitsOf("untied_odd", all));
    }
  }
  EXPECT_EQ(bits.size(), 1u) << ::testing::PrintToString(bits);
}

// NCCL's own order, which train takes for fp32 where nobody says.
TEST_P(GoldenOnDoubles, IsReachedByNcclsOwnSums) {
  BitsOf("untied_odd", {"--backend=nccl", "--reduction=native", Stage(4 - GetParam()), Ranks(GetParam())});
}

INSTANTIATE_TEST_SUITE_P(On, GoldenOnDoubles, ::testing::Range(1, 5));

// Of the other runs two stages each, on the numbers of ranks and the backends in turn.
class OtherGoldensOnDoubles : public ::testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(OtherGoldensOnDoubles, AreReached) {
  const auto& [name, turn] = GetParam();
  for (const int stage : {turn % 2, turn % 2 + 2}) {
    const char* backend = stage < 2 ? "--backend=nccl" : "--backend=gloo";
    BitsOf(name, {backend, "--reduction=tree", Stage(stage), Ranks((stage + turn) % 4 + 1)});
  }
}

INSTANTIATE_TEST_SUITE_P(Each, OtherGoldensOnDoubles,
                         ::testing::Values(std::tuple("adamw", 0), std::tuple("adamw_accumulation", 1),
                                           std::tuple("sgd_momentum", 2), std::tuple("frozen", 3)));

TEST(GoldenOnDoublesRefuses, AModelThatItsCardHasNoRoomForWithTheTable) {
  for (const char* backend : {"--backend=nccl", "--backend=gloo", "--backend=in_process"}) {
    const ToolResult result = RunGolden("adamw", {backend, "--nproc=2"}, {"ZEROSHARD_DOUBLE_MEMORY=100000"});
    EXPECT_EQ(result.code, 2) << result.errors;
    EXPECT_EQ(result.output, "");
    EXPECT_THAT(result.errors, AllOf(ContainsRegex("moments +[0-9]"), ContainsRegex("total +[0-9]")));
    EXPECT_THAT(LastLine(result.errors),
                ContainsRegex("^error: a rank needs [0-9.]+ MB or more, and the GPU has 0.1 MB; less is needed with "));
  }
}

// What others hold of it is seen once the card is opened.
TEST(GoldenOnDoublesRefuses, AModelThatNothingIsLeftFor) {
  const ToolResult result = RunGolden("adamw", {"--backend=nccl", "--nproc=2"},
                                      {"ZEROSHARD_DOUBLE_MEMORY=200000000", "ZEROSHARD_DOUBLE_IN_USE=132800000"});
  EXPECT_EQ(result.code, 2) << result.errors;
  EXPECT_THAT(LastLine(result.errors), AllOf(HasSubstr("a rank needs "), HasSubstr("and the GPU has 67.2 MB left; ")));
}

}  // namespace
}  // namespace zeroshard::integration_tests

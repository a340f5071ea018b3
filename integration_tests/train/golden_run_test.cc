// Reference runs, computed by PyTorch in float64, through tools:golden: every stage and partition, one to four ranks. That bits are the
// same in all of them is zero's own suites' to show (engine_exactness_test); here each of them is held to the reference.
#include <filesystem>
#include <set>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "zeroshard/integration_tests/train/tool_process.h"

namespace zeroshard::integration_tests {
namespace {

using Json = nlohmann::json;

Json Golden(const std::string& name, const std::vector<std::string>& flags) {
  std::vector<std::string> arguments = {"integration_tests/testdata/golden/" + name, "--threads=1", "--timeout=60"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  const ToolResult result = RunTool("tools/golden", arguments);
  EXPECT_EQ(result.code, 0) << result.errors;
  return Json::parse(result.output, nullptr, false);
}

class GoldenRun : public ::testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(GoldenRun, IsReachedInEveryStageWithTheSameBits) {
  const auto& [name, ranks] = GetParam();
  const bool accumulates = std::string(name) == "adamw_accumulation";
  std::set<std::string> bits[2];
  for (int stage = 0; stage < 4; ++stage) {
    for (int p : {0, 1}) {
      // Both on two ranks; on the other numbers of them one for each stage, in turn.
      if (ranks != 2 && p != (stage + ranks) % 2) continue;
      const char* partition = p == 0 ? "flat" : "tensor";
      SCOPED_TRACE(absl::StrCat("stage ", stage, " ", partition));
      const Json run = Golden(name, {absl::StrCat("--stage=", stage), absl::StrCat("--partition=", partition),
                                     absl::StrCat("--nproc=", ranks), "--backend=in_process"});
      ASSERT_TRUE(run.is_object());
      EXPECT_LE(run["max_relative_loss_error"], 4e-7);
      EXPECT_LE(run["max_relative_norm_error"], 4e-7);
      EXPECT_LE(run["max_weight_error"], 3e-5);
      bits[accumulates ? stage / 2 : 0].insert(run["bits"].get<std::string>());
    }
  }
  EXPECT_EQ(bits[0].size(), 1u);
  EXPECT_LE(bits[1].size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(All, GoldenRun,
                         ::testing::Combine(::testing::Values("adamw", "adamw_accumulation", "sgd_momentum", "untied_odd",
                                                              "frozen"),
                                            ::testing::Values(1, 2, 3, 4)));

TEST(GoldenTool, HasTheSameBitsOverGloo) {
  const std::vector<std::string> flags = {"--stage=3", "--nproc=3"};
  EXPECT_EQ(Golden("untied_odd", flags)["bits"],
            Golden("untied_odd", {"--stage=0", "--nproc=3", "--backend=in_process"})["bits"]);
}

TEST(GoldenTool, HasTheSameBitsWithActivationCheckpoints) {
  for (const char* name : {"adamw", "untied_odd"}) {
    const Json plain = Golden(name, {"--stage=0", "--nproc=2", "--backend=in_process"})["bits"];
    for (const int stage : {2, 3}) {
      for (const int every : {1, 2, 3}) {
        const Json run = Golden(name, {absl::StrCat("--stage=", stage), "--nproc=2", "--backend=in_process",
                                       absl::StrCat("--activation_checkpoint_every=", every),
                                       absl::StrCat("--activation_checkpoints_on_host=", every == 2)});
        EXPECT_EQ(run["bits"], plain) << name << " " << stage << " " << every;
      }
    }
  }
}

TEST(GoldenTool, HasTheSameBitsUnderOffload) {
  for (const char* name : {"adamw_accumulation", "untied_odd", "frozen"}) {
    const Json plain = Golden(name, {"--stage=2", "--nproc=2", "--backend=in_process"})["bits"];
    for (const std::string kind : {"cpu", "nvme"}) {
      const std::string folder = ::testing::TempDir();
      const Json run = Golden(name, {"--stage=3", "--nproc=2", "--backend=in_process", "--offload_optimizer=" + kind,
                                     "--offload_optimizer_folder=" + folder, "--offload_parameters=" + kind,
                                     "--offload_parameters_folder=" + folder, "--sub_group_size=5000"});
      EXPECT_EQ(run["bits"], plain) << name << " " << kind;
    }
  }
}

TEST(GoldenTool, HasTheSameBitsWithAllThatMovesState) {
  const std::string folder = "--offload_optimizer_folder=" + ::testing::TempDir();
  for (const char* name : {"adamw", "untied_odd", "frozen"}) {
    const Json plain = Golden(name, {"--stage=0", "--nproc=3", "--backend=in_process", "--nooverlap"})["bits"];
    const std::vector<std::string> all = {"--stage=3",
                                          "--nproc=3",
                                          "--backend=in_process",
                                          "--overlap",
                                          "--prefetch_bucket_size=20000",
                                          "--persistence_threshold=65",
                                          "--activation_checkpoint_every=1",
                                          "--activation_checkpoints_on_host",
                                          "--offload_optimizer=nvme",
                                          "--offload_parameters=cpu",
                                          "--sub_group_size=5000",
                                          folder};
    EXPECT_EQ(Golden(name, all)["bits"], plain) << name;
    EXPECT_EQ(Golden(name, {"--stage=3", "--nproc=3", "--backend=in_process", "--prefetch=3"})["bits"], plain) << name;
  }
}

TEST(GoldenTool, RefusesWhatIsNoGoldenRun) {
  EXPECT_EQ(RunTool("tools/golden", {}).code, 2);
  const ToolResult missing = RunTool("tools/golden", {"/nonexistent"});
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(LastLine(missing.errors), ::testing::HasSubstr("/nonexistent"));
}

// A folder whose model is 26 TB in all.
TEST(GoldenTool, RefusesAModelThatThisMachinesMemoryCannotHold) {
  const std::filesystem::path from = "integration_tests/testdata/golden/adamw", folder = ::testing::TempDir() + "/large";
  std::filesystem::create_directories(folder);
  for (const auto& entry : std::filesystem::directory_iterator(from)) {
    if (entry.path().filename() != "config.json")
      std::filesystem::create_symlink(std::filesystem::canonical(entry.path()), folder / entry.path().filename());
  }
  Json config = Json::parse(ReadFile(from / "config.json"));
  config["width"] = 65536;
  config["layers"] = 32;
  WriteFile("large/config.json", config.dump());
  for (const char* backend : {"--backend=gloo", "--backend=in_process"}) {
    const ToolResult result = RunTool("tools/golden", {folder, backend, "--nproc=2"});
    EXPECT_EQ(result.code, 2) << result.errors;
    EXPECT_EQ(result.output, "");
    EXPECT_THAT(result.errors, ::testing::ContainsRegex("MB of a rank +needed +stage 0"));
    EXPECT_THAT(LastLine(result.errors),
                ::testing::ContainsRegex("^error: 2 ranks together need [0-9]+.[0-9] GB or more, and this machine has "));
  }
}

}  // namespace
}  // namespace zeroshard::integration_tests

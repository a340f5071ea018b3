// tools:train under launchers that are not ours, for real, with no variable set by hand.

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "zeroshard/integration_tests/launchers/one_node_slurm.h"
#include "zeroshard/integration_tests/train/tool_process.h"

namespace zeroshard::integration_tests {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

constexpr char kTrain[] = "tools/train";

Words Train(const std::string& summary) {
  static const std::string text = WriteFile("text.txt", SomeText(60'000));
  return {"--data=" + text, "--layers=1", "--heads=2",    "--width=32", "--context=24",         "--batch=2",
          "--threads=1",    "--sample=0", "--timeout=60", "--steps=5",  "--summary=" + summary, "--stage=2"};
}

// The bits of two ranks that this program starts itself.
std::string OwnBits() {
  static const std::string bits = [] {
    const std::string path = ::testing::TempDir() + "/own.json";
    Words words = Train(path);
    words.emplace_back("--nproc=2");
    const ToolResult result = RunTool(kTrain, words);
    EXPECT_EQ(result.code, 0) << result.errors;
    return Json::parse(ReadFile(path), nullptr, false)["bits"].get<std::string>();
  }();
  return bits;
}

void ExpectTrains(const std::string& launcher, Words words, const Words& environment = {}) {
  const std::string path = ::testing::TempDir() + "/summary.json";
  words.push_back(std::filesystem::absolute(kTrain).string());
  for (std::string& word : Train(path)) words.push_back(std::move(word));
  words.emplace_back();
  for (const std::string backend : {"gloo", "ucx"}) {
    std::filesystem::remove(path);
    words.back() = "--backend=" + backend;
    const ToolResult result = RunTool(launcher, words, environment);
    ASSERT_EQ(result.code, 0) << backend << ": " << result.errors;
    const Json summary = Json::parse(ReadFile(path), nullptr, false);
    EXPECT_EQ(summary["world_size"], 2);
    EXPECT_EQ(summary["backend"], backend);
    EXPECT_EQ(summary["bits"], OwnBits());
    EXPECT_TRUE(std::filesystem::is_empty(::testing::TempDir() + "/cache/zeroshard/jobs")) << "a token was left";
  }
}

TEST(Launchers, OpenMpisMpirun) {
  if (access("/usr/bin/mpirun.openmpi", X_OK) != 0) GTEST_SKIP() << "no Open MPI on this machine: see tools/launchers.txt";
  ExpectTrains("/usr/bin/mpirun.openmpi", {"--allow-run-as-root", "--oversubscribe", "-n", "2"});
}

TEST(Launchers, MpichsMpirun) {
  if (access("/usr/bin/mpirun.mpich", X_OK) != 0) GTEST_SKIP() << "no MPICH on this machine: see tools/launchers.txt";
  ExpectTrains("/usr/bin/mpirun.mpich", {"-n", "2"});
}

TEST(Launchers, SlurmsSrun) {
  const OneNodeSlurm slurm(absl::StrCat("/tmp/slurm.", getpid()));
  if (!slurm.why_not().empty()) GTEST_SKIP() << slurm.why_not();
  ExpectTrains("/usr/bin/srun", {"-n", "2"}, {"SLURM_CONF=" + slurm.configuration()});
}

// TORCHRUN=PATH names one that is not Debian's: bazel test --test_env=TORCHRUN=...
TEST(Launchers, Torchrun) {
  const char* const named = std::getenv("TORCHRUN");
  const std::string torchrun = named != nullptr ? named : "/usr/bin/torchrun";
  if (access(torchrun.c_str(), X_OK) != 0) GTEST_SKIP() << "no torchrun on this machine; TORCHRUN=PATH names one";
  ExpectTrains(torchrun, {"--nproc-per-node=2", "--no-python"});
}

}  // namespace
}  // namespace zeroshard::integration_tests

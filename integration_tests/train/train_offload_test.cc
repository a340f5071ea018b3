// Whole runs of tools:train whose state lives outside device memory: the same bits, ledgers as predicted, no file left.
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <set>
#include <string>
#include <thread>
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
using Flags = std::vector<std::string>;

Flags Small(const Flags& more, int steps) {
  static const std::string text = WriteFile("text.txt", SomeText(60'000));
  Flags flags = {"--data=" + text, "--layers=2",  "--heads=2",  "--width=32",   "--context=24",
                 "--batch=3",      "--threads=1", "--sample=0", "--timeout=60", absl::StrCat("--steps=", steps)};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

Json Summary(Flags more, int steps = 5) {
  const std::string path = ::testing::TempDir() + "/summary.json";
  more.push_back("--summary=" + path);
  const ToolResult result = RunTool("tools/train", Small(more, steps));
  EXPECT_EQ(result.code, 0) << result.errors;
  return Json::parse(ReadFile(path), nullptr, false);
}

std::string NewFolder(const std::string& name) {
  const std::string path = ::testing::TempDir() + "/" + name;
  mkdir(path.c_str(), 0700);
  return path;
}

int Entries(const std::string& path) {
  DIR* folder = opendir(path.c_str());
  int entries = -2;  // . and ..
  while (folder != nullptr && readdir(folder) != nullptr) ++entries;
  if (folder != nullptr) closedir(folder);
  return entries;
}

Flags Offload(const std::string& kind, const std::string& folder) {
  return {"--offload_optimizer=" + kind, "--offload_optimizer_folder=" + folder, "--sub_group_size=3000"};
}

Flags OffloadBoth(const std::string& kind, const std::string& folder) {
  Flags flags = Offload(kind, folder);
  flags.insert(flags.end(), {"--stage=3", "--offload_parameters=" + kind, "--offload_parameters_folder=" + folder});
  return flags;
}

TEST(TrainOffload, HasTheBitsOfTheRunWithout) {
  const std::string folder = NewFolder("bits");
  for (const char* dtype : {"--dtype=fp32", "--dtype=bf16"}) {
    std::set<std::string> bits = {Summary({dtype, "--stage=2"})["bits"]};
    for (const char* kind : {"cpu", "nvme"}) {
      Flags flags = Offload(kind, folder);
      flags.insert(flags.end(), {dtype, "--stage=2", "--offload_ratio=0.6"});
      bits.insert(Summary(flags)["bits"]);
      flags = OffloadBoth(kind, folder);
      flags.insert(flags.end(), {dtype, "--activation_checkpoint_every=1"});
      bits.insert(Summary(flags)["bits"]);
    }
    EXPECT_EQ(bits.size(), 1u) << dtype << Json(bits);
  }
  EXPECT_EQ(Entries(folder), 0);
}

TEST(TrainOffload, WorldInvariantRunsHaveTheBitsOfOneRankWithout) {
  const std::string folder = NewFolder("invariant");
  const Json one = Summary({"--world_invariant", "--nproc=1", "--accumulation=4", "--stage=0"}, 4);
  Flags two = Offload("cpu", folder);
  two.insert(two.end(), {"--world_invariant", "--nproc=2", "--accumulation=2", "--stage=1", "--offload_ratio=0.6"});
  EXPECT_EQ(Summary(two, 4)["bits"], one["bits"]);
  Flags four = OffloadBoth("nvme", folder);
  four.insert(four.end(), {"--world_invariant", "--nproc=4", "--accumulation=1", "--backend=in_process"});
  EXPECT_EQ(Summary(four, 4)["bits"], one["bits"]);
}

TEST(TrainOffload, MuonsMatricesHaveTheBitsOfTheRunWithout) {
  const std::string folder = NewFolder("muon");
  const Json plain = Summary({"--optimizer=muon", "--stage=0", "--backend=in_process"});
  for (const char* kind : {"cpu", "nvme"}) {
    Flags flags = Offload(kind, folder);
    flags.insert(flags.end(), {"--optimizer=muon", "--stage=3", "--partition=tensor", "--offload_parameters=cpu"});
    const Json summary = Summary(flags);
    EXPECT_EQ(summary["bits"], plain["bits"]) << kind;
    for (const Json& rank : summary["ranks"]) {
      for (const auto& [use, line] : rank["host_ledger"].items()) EXPECT_EQ(line["now"], line["predicted"]) << use;
      EXPECT_EQ(rank["allocations"]["step_3"], 0);
      EXPECT_EQ(rank["allocations"]["last_step"], 0);
    }
  }
}

TEST(TrainOffload, FilesEachByteOfBothMemoriesAndAllocatesNone) {
  const std::string folder = NewFolder("ledger");
  for (const char* kind : {"cpu", "nvme"}) {
    Flags flags = OffloadBoth(kind, folder);
    flags.push_back("--dtype=bf16");
    const Json summary = Summary(flags, 8);
    for (const Json& rank : summary["ranks"]) {
      for (const auto& [use, line] : rank["ledger"].items()) EXPECT_EQ(line["now"], line["predicted"]) << use;
      for (const auto& [use, line] : rank["host_ledger"].items()) EXPECT_EQ(line["now"], line["predicted"]) << use;
      EXPECT_EQ(rank["ledger"]["parameters"]["now"], 0);
      EXPECT_EQ(rank["ledger"]["moments"]["now"], 0);
      EXPECT_GT(rank["host_ledger"]["gradients"]["now"], 0);
      EXPECT_EQ(rank["host_ledger"]["moments"]["now"] > 0, std::string(kind) == "cpu");
      EXPECT_EQ(rank["offload_file_bytes"] > 0, std::string(kind) == "nvme");
      EXPECT_EQ(rank["allocations"]["step_3"], 0);
      EXPECT_EQ(rank["allocations"]["last_step"], 0);
      EXPECT_EQ(rank["wire"]["data_bytes_per_step"], rank["wire"]["predicted_data_bytes_per_step"]);
    }
  }
}

TEST(TrainOffload, LeavesNoFileWhereItsProcessesAreKilled) {
  const std::string folder = NewFolder("killed");
  ToolProcess train("tools/train", Small(OffloadBoth("nvme", folder), 1'000'000));
  ASSERT_TRUE(train.AwaitError("step 1/")) << train.Errors();
  const std::vector<pid_t> ranks = train.Children();
  EXPECT_EQ(ranks.size(), 2u);
  kill(train.pid(), SIGKILL);
  for (const pid_t rank : ranks) kill(rank, SIGKILL);
  train.Wait();
  EXPECT_EQ(Entries(folder), 0);
}

TEST(TrainOffload, FoldersAndStagesThatCannotServeAreRefusedBeforeRanksStart) {
  const auto refused = [](const Flags& flags, const std::string& message) {
    const ToolResult result = RunTool("tools/train", Small(flags, 2));
    EXPECT_EQ(result.code, 2) << result.errors;
    EXPECT_THAT(LastLine(result.errors), HasSubstr(message));
    EXPECT_THAT(result.errors, ::testing::Not(HasSubstr("rank 0")));
  };
  refused({"--stage=3", "--max_live_parameters=10"}, "max_live_parameters is 10, but unit block.0 alone gathers");
  refused({"--stage=2", "--offload_optimizer=nvme", "--offload_optimizer_folder=/nonexistent"},
          "/nonexistent: No such file");
  refused({"--stage=2", "--offload_optimizer=nvme"}, "folder");
  refused({"--stage=0", "--offload_optimizer=cpu"}, "offload_optimizer is cpu in stage 0");
  refused({"--stage=2", "--offload_optimizer=cpu", "--offload_parameters=cpu"}, "offload_parameters is cpu in stage 2");
  refused({"--stage=3", "--offload_parameters=cpu"}, "offload_optimizer none");
  refused({"--stage=3", "--offload_optimizer=cpu", "--offload_ratio=1.5"}, "1.5");
  refused({"--stage=3", "--offload_optimizer=cpu", "--sub_group_size=0"}, "sub_group_size");
}

}  // namespace
}  // namespace zeroshard::integration_tests

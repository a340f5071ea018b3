// Whole runs of tools:train on doubles of GPUs and of NCCL: processes over NCCL's exchanges and our sums, processes over gloo, and threads
// give the same bits in every stage, partition, precision, place of state and number of ranks; and hold what was predicted, to the
// byte.
#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "zeroshard/integration_tests/train/on_doubles.h"
#include "zeroshard/integration_tests/train/tool_process.h"

namespace zeroshard::integration_tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::json;
using Flags = std::vector<std::string>;

Flags Small(const Flags& more, int steps) {
  static const std::string text = WriteFile("text.txt", SomeText(20'000));
  Flags flags = {"--data=" + text, "--layers=1",    "--heads=2",        "--width=16",
                 "--context=8",    "--batch=2",     "--threads=1",      "--sample=0",
                 "--timeout=60",   "--device=cuda", "--reduction=tree", absl::StrCat("--steps=", steps)};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

// Cards have lines beside, of what nobody predicts. What the doubles allocate is the vendor's, as what CUDA does.
void ExpectMemoryAsPromised(const Json& summary) {
  for (const Json& rank : summary["ranks"]) {
    int predicted = 0;
    for (const char* ledger : {"ledger", "host_ledger"}) {
      if (!rank.contains(ledger)) continue;
      for (const auto& [use, line] : rank[ledger].items()) {
        if (line["predicted"].is_null()) continue;
        EXPECT_EQ(line["now"], line["predicted"]) << ledger << ", " << use << " of rank " << rank["rank"];
        ++predicted;
      }
    }
    EXPECT_GE(predicted, 7) << rank;
    for (const char* step : {"step_3", "last_step"}) EXPECT_EQ(rank["allocations"][step], 0) << "rank " << rank["rank"];
  }
}

std::string Bits(Flags flags, const std::vector<std::string>& environment = {}) {
  const std::string path = ::testing::TempDir() + "/summary.json";
  flags.push_back("--summary=" + path);
  const ToolResult result = RunTool("tools/train", Small(flags, 3), OnDoubles(environment));
  EXPECT_EQ(result.code, 0) << absl::StrJoin(flags, " ") << "\n" << result.errors;
  const Json summary = Json::parse(ReadFile(path), nullptr, false);
  SCOPED_TRACE(absl::StrJoin(flags, " "));
  if (summary.is_object()) ExpectMemoryAsPromised(summary);
  return result.code == 0 && summary.is_object() ? summary["bits"].get<std::string>() : "no bits";
}

// Every stage, partition and place of state that there is.
std::vector<Flags> Ways() {
  std::vector<Flags> ways;
  for (int stage = 0; stage < 4; ++stage) {
    for (const char* partition : {"--partition=flat", "--partition=tensor"}) {
      const Flags plain = {absl::StrCat("--stage=", stage), partition};
      ways.push_back(plain);
      Flags offloaded = plain;
      offloaded.insert(offloaded.end(), {"--offload_optimizer=cpu", "--sub_group_size=3000"});
      if (stage > 0) ways.push_back(offloaded);
      offloaded.push_back("--offload_parameters=cpu");
      if (stage == 3) ways.push_back(offloaded);
    }
  }
  return ways;
}

constexpr const char* kBackends[] = {"nccl", "gloo", "in_process"};
constexpr const char* kDTypes[] = {"fp32", "bf16", "fp16"};
constexpr int kMostRanks = 4;

// ZS_ALL=1 runs the whole product; else each precision and number of ranks takes its share of the pairs of a way and a backend, so that
// every pair is run once.
bool Chosen(int group, size_t pair) {
  const char* all = std::getenv("ZS_ALL");
  constexpr int kGroups = kMostRanks * 3;
  return all != nullptr || static_cast<int>(pair % kGroups) == group;
}

class TrainOnDoubles : public ::testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(TrainOnDoubles, HasTheSameBitsOverEveryBackendInEveryWay) {
  const auto [dtype, ranks] = GetParam();
  Flags common = {absl::StrCat("--dtype=", kDTypes[dtype]), absl::StrCat("--nproc=", ranks)};
  if (kDTypes[dtype] == std::string("fp16")) common.push_back("--loss_scale=64");
  const std::string want = Bits([&] {
    Flags flags = common;
    flags.insert(flags.end(), {"--backend=in_process", "--stage=0"});
    return flags;
  }());
  const std::vector<Flags> ways = Ways();
  int runs = 0;
  for (size_t way = 0; way < ways.size(); ++way) {
    for (size_t backend = 0; backend < 3; ++backend) {
      if (!Chosen(dtype * kMostRanks + ranks - 1, way * 3 + backend + way / 4)) continue;
      Flags flags = common;
      flags.insert(flags.end(), ways[way].begin(), ways[way].end());
      flags.push_back(absl::StrCat("--backend=", kBackends[backend]));
      EXPECT_EQ(Bits(flags), want) << absl::StrJoin(flags, " ");
      ++runs;
    }
  }
  EXPECT_GT(runs, 2);
}

INSTANTIATE_TEST_SUITE_P(All, TrainOnDoubles,
                         ::testing::Combine(::testing::Range(0, 3), ::testing::Range(1, kMostRanks + 1)),
                         [](const auto& group) {
                           return absl::StrCat(kDTypes[std::get<0>(group.param)], "On", std::get<1>(group.param));
                         });

// "parameters" and the like: megabytes of the rank that needs most, as a refusal's table has them.
std::string Needed(const std::string& table, const std::string& use) {
  for (const absl::string_view line : absl::StrSplit(table, '\n')) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    const size_t name = 1 + static_cast<size_t>(std::count(use.begin(), use.end(), '_'));
    const auto begin = words.begin(), end = begin + static_cast<std::ptrdiff_t>(std::min(name, words.size()));
    if (words.size() > name && absl::StrJoin(begin, end, "_") == use) return words[name];
  }
  return "no such line in " + table;
}

// By the process that starts ranks, which opens nothing of NCCL's.
TEST(TrainOnDoublesMemory, IsToldBeforeTheStartAsTheLedgersHaveItThen) {
  const std::string path = ::testing::TempDir() + "/memory.json";
  for (const std::string backend : {"nccl", "gloo", "in_process"}) {
    for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
      Flags flags = {"--backend=" + backend, absl::StrCat("--nproc=", ranks), "--summary=" + path};
      if (ranks == 4) flags.push_back("--shard_size=2");
      const ToolResult refused = RunTool("tools/train", Small(flags, 1), OnDoubles({"ZEROSHARD_DOUBLE_MEMORY=1000"}));
      EXPECT_EQ(refused.code, 2) << refused.errors;
      const ToolResult done = RunTool("tools/train", Small(flags, 1), OnDoubles());
      ASSERT_EQ(done.code, 0) << done.errors;
      const Json summary = Json::parse(ReadFile(path), nullptr, false);
      for (const char* use : {"parameters", "gradients", "master_weights", "moments", "communication", "data"}) {
        int64_t most = 0;
        for (const Json& rank : summary["ranks"]) most = std::max(most, rank["ledger"][use]["now"].get<int64_t>());
        EXPECT_EQ(Needed(refused.errors, use), absl::StrFormat("%.2f", static_cast<double>(most) / 1e6))
            << use << " over " << backend << " on " << ranks;
      }
    }
  }
}

TEST(TrainOnDoublesInGroups, HasTheBitsOfOneGroup) {
  const std::string want = Bits({"--nproc=4", "--backend=in_process", "--stage=2"});
  for (const char* partition : {"--partition=flat", "--partition=tensor"}) {
    EXPECT_EQ(Bits({"--nproc=4", "--backend=nccl", "--stage=3", "--shard_size=2", partition}), want) << partition;
  }
}

// Matrices that one rank alone has are multiplied there alone.
TEST(TrainOnDoublesByMuon, HasTheSameBitsWhereRanksHaveProductsOfTheirOwn) {
  const Flags muon = {"--optimizer=muon", "--nproc=3", "--partition=tensor"};
  const auto in_stage = [&](const char* stage, const char* backend) {
    Flags flags = muon;
    flags.insert(flags.end(), {stage, backend});
    return Bits(flags);
  };
  const std::string want = in_stage("--stage=0", "--backend=in_process");
  EXPECT_EQ(in_stage("--stage=1", "--backend=nccl"), want);
  EXPECT_EQ(in_stage("--stage=3", "--backend=nccl"), want);
}

// Two algorithms, of which cuBLASLt's heuristics name the one or the other first, have different bits.
TEST(TrainOnDoublesProductChoices, AreRankZerosWhateverTheOthersHeuristicsSay) {
  const Flags flags = {"--nproc=2", "--backend=nccl"};
  const std::string want = Bits(flags);
  EXPECT_NE(Bits(flags, {"ZEROSHARD_DOUBLE_HEURISTIC=1"}), want);
  EXPECT_EQ(Bits(flags, {"ZEROSHARD_DOUBLE_HEURISTIC=2"}), want);
}

TEST(TrainOnDoublesProductChoices, ThatAreSavedGiveALaterRunTheSameBits) {
  const std::string record = ::testing::TempDir() + "/run.json", choices = record + ".products";
  const std::string want = Bits({"--nproc=2", "--backend=nccl", "--save_config=" + record});
  EXPECT_THAT(ReadFile(choices), StartsWith("cuBLASLt "));
  const std::vector<std::string> other = {"ZEROSHARD_DOUBLE_HEURISTIC=1"};
  for (const char* backend : {"--backend=nccl", "--backend=gloo", "--backend=in_process"}) {
    const std::string again = ::testing::TempDir() + "/again.products";
    EXPECT_EQ(Bits({"--nproc=2", backend, "--product_choices=" + choices, "--save_product_choices=" + again}, other), want);
    EXPECT_EQ(ReadFile(again), ReadFile(choices));
  }
}

TEST(TrainOnDoublesProductChoices, OfSomethingElseAreRefusedInOneLine) {
  const std::string choices = ::testing::TempDir() + "/small.products";
  Bits({"--nproc=1", "--backend=gloo", "--save_product_choices=" + choices});
  const std::string text = ReadFile(choices);
  const std::string garbled = WriteFile("garbled.products", text.substr(0, text.size() / 2));
  const auto refused = [](const Flags& flags, const char* words) {
    Flags all = {"--nproc=1", "--backend=gloo"};
    all.insert(all.end(), flags.begin(), flags.end());
    const ToolResult result = RunTool("tools/train", Small(all, 3), OnDoubles());
    EXPECT_EQ(result.code, 2) << result.errors;
    EXPECT_THAT(LastLine(result.errors), AllOf(StartsWith("error: "), HasSubstr("product_choices"), HasSubstr(words)));
    EXPECT_THAT(result.errors, Not(HasSubstr("step 1/")));
  };
  refused({"--product_choices=/nonexistent"}, "cannot read '/nonexistent'");
  refused({"--product_choices=" + garbled}, "its last line is no checksum of it");
  refused({"--product_choices=" + choices, "--batch=3"}, "no algorithm was chosen for the product [");
  refused({"--product_choices=" + choices, "--device=cpu"}, "on GPUs alone");
  refused({"--save_product_choices=/nonexistent/x"}, "cannot write --save_product_choices=/nonexistent/x");
}

TEST(TrainOnDoublesStepFloor, IsTheTimeOfProductsAlone) {
  const ToolResult result =
      RunTool("tools/train", Small({"--nproc=2", "--backend=nccl", "--step_floor", "--dtype=bf16"}, 3), OnDoubles());
  ASSERT_EQ(result.code, 0) << result.errors;
  const Json floor = Json::parse(result.output, nullptr, false);
  ASSERT_TRUE(floor.is_object()) << result.output;
  EXPECT_GT(floor["floor_s_median"].get<double>(), 0);
  EXPECT_LE(floor["floor_s_min"], floor["floor_s_median"]);
  EXPECT_EQ(floor["tokens"], 2 * 2 * 8);
  EXPECT_EQ(floor["dtype"], "bf16");
}

// A run by them has its bits, whatever cuBLASLt would choose then.
TEST(TrainOnDoublesStepFloor, KeepsWhatItsProductsRanBy) {
  const std::string folder = ::testing::TempDir();
  const Flags flags = {"--nproc=2", "--backend=nccl"};
  const std::string want = Bits(flags);
  for (const auto& [flag, choices] : {std::pair("--save_config=" + folder + "/floor.json", folder + "/floor.json.products"),
                                      {"--save_product_choices=" + folder + "/f.products", folder + "/f.products"}}) {
    const std::string summary = folder + "/floor.summary";
    Flags floor = flags;
    floor.insert(floor.end(), {"--step_floor", flag, "--summary=" + summary, "--metrics=" + summary});
    const ToolResult result = RunTool("tools/train", Small(floor, 3), OnDoubles());
    ASSERT_EQ(result.code, 0) << result.errors;
    EXPECT_THAT(ReadFile(choices), StartsWith("cuBLASLt ")) << flag;
    EXPECT_FALSE(std::filesystem::exists(summary));
    Flags again = flags;
    again.push_back("--product_choices=" + choices);
    EXPECT_EQ(Bits(again, {"ZEROSHARD_DOUBLE_HEURISTIC=1"}), want) << flag;
  }
}

TEST(TrainOnDoublesOverNccl, NamesARankThatIsKilled) {
  ToolProcess train("tools/train", Small({"--nproc=3", "--backend=nccl", "--stage=2"}, 1'000'000), OnDoubles());
  ASSERT_TRUE(train.AwaitError("step 1/")) << train.Errors();
  const std::vector<pid_t> ranks = train.Children();
  ASSERT_EQ(ranks.size(), 3u);
  kill(ranks[1], SIGKILL);
  const ToolResult result = train.Wait();
  EXPECT_EQ(result.code, 4) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("rank 1"));
}

TEST(TrainOnDoubles, SaysWhatItsCardsHoldAndGive) {
  const std::string path = ::testing::TempDir() + "/cards.json", trace = ::testing::TempDir() + "/cards.trace.json";
  constexpr int64_t kOthers = 12'345'678;
  const ToolResult result =
      RunTool("tools/train", Small({"--backend=nccl", "--nproc=2", "--summary=" + path, "--trace=" + trace}, 4),
              OnDoubles({absl::StrCat("ZEROSHARD_DOUBLE_IN_USE=", kOthers)}));
  ASSERT_EQ(result.code, 0) << result.errors;
  const Json summary = Json::parse(ReadFile(path), nullptr, false);
  EXPECT_GT(summary["mfu"], 0) << summary;
  for (const Json& rank : summary["ranks"]) {
    const Json& ledger = rank["ledger"];
    EXPECT_GT(ledger["granularity"]["now"], 0) << rank;
    EXPECT_EQ(ledger["vendor_libraries"]["now"], kOthers) << "what nobody here asked for; all else is filed: " << rank;
    EXPECT_GT(rank["host_ledger"]["granularity"]["now"], 0) << rank;
    EXPECT_GT(rank["peak_device_bytes"], ledger["parameters"]["peak"]) << rank;
  }
  EXPECT_THAT(ReadFile(trace), ::testing::HasSubstr("reduce-scatter"));
}

}  // namespace
}  // namespace zeroshard::integration_tests

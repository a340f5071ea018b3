// Why a run on GPUs does not start: on the doubles, which can lack a driver, and on the true libraries where this machine lacks one.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "zeroshard/integration_tests/train/core_watch.h"
#include "zeroshard/integration_tests/train/on_doubles.h"
#include "zeroshard/integration_tests/train/tool_process.h"

namespace zeroshard::integration_tests {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

CoreWatch& Cores() {
  static CoreWatch watch;
  return watch;
}

ToolResult Train(const std::vector<std::string>& flags, const std::vector<std::string>& environment = {}) {
  Cores();
  const ToolResult result = RunTool("tools/train", flags, environment);
  EXPECT_EQ(Cores().Dumps(result), "");
  return result;
}

void ExpectOneLine(const ToolResult& result) {
  EXPECT_EQ(result.code, 2) << result.errors;
  EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1) << result.errors;
  EXPECT_EQ(result.output, "");
}

// So that the others' expectation that there is no core is one that can fail.
TEST(TrainOnGpusCores, AreSeen) {
  if (!Cores().LeavesFiles()) GTEST_SKIP() << "this machine leaves no core beside the process";
  const std::string text = WriteFile("text.txt", SomeText(20'000));
  ToolProcess train("tools/train", {"--data=" + text, "--tokenizer=bytes", "--nproc=2", "--steps=1000000"});
  ASSERT_TRUE(train.AwaitError("step 1/")) << train.Errors();
  const std::vector<pid_t> ranks = train.Children();
  ASSERT_EQ(ranks.size(), 2u);
  kill(ranks[1], SIGABRT);
  const ToolResult of_a_child = train.Wait();
  EXPECT_FALSE(of_a_child.dumped_core);
  EXPECT_THAT(Cores().Dumps(of_a_child), StartsWith("core"));
  ToolProcess alone("tools/train", {"--data=" + text, "--tokenizer=bytes", "--nproc=2", "--steps=1000000"});
  ASSERT_TRUE(alone.AwaitError("step 1/")) << alone.Errors();
  kill(alone.pid(), SIGABRT);
  EXPECT_THAT(Cores().Dumps(alone.Wait()), StartsWith("the process "));
}

TEST(TrainOnGpusRefuses, WithoutADriver) {
  for (const char* asked : {"--backend=nccl", "--device=cuda"}) {
    // The launcher, and a rank that somebody else started.
    for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"RANK=0", "WORLD_SIZE=1", "LOCAL_RANK=0"}}) {
      std::vector<std::string> environment = OnDoubles(more);
      environment.emplace_back("ZEROSHARD_DOUBLE_DRIVER=0");
      const ToolResult result = Train({asked}, environment);
      ExpectOneLine(result);
      EXPECT_THAT(result.errors, AllOf(StartsWith("no NVIDIA driver: "), HasSubstr("leave out")));
    }
  }
}

TEST(TrainOnGpusRefuses, ADriverThatIsTooOldWithBothVersions) {
  const ToolResult result = Train({"--device=cuda"}, OnDoubles({"ZEROSHARD_DOUBLE_DRIVER=12020"}));
  ExpectOneLine(result);
  EXPECT_THAT(result.errors, HasSubstr("it has CUDA 12.2, this program needs 13."));
}

TEST(TrainOnGpusRefuses, TooFewGpusWithBothNumbers) {
  const ToolResult none = Train({"--device=cuda"}, OnDoubles({"ZEROSHARD_DOUBLE_DEVICES=0"}));
  ExpectOneLine(none);
  EXPECT_THAT(none.errors, StartsWith("no GPU: "));
  const ToolResult few = Train({"--device=cuda", "--nproc=3"}, OnDoubles({"ZEROSHARD_DOUBLE_DEVICES=2"}));
  ExpectOneLine(few);
  EXPECT_THAT(few.errors, StartsWith("too few GPUs: 3 ranks, 2 visible"));
  // A rank that somebody else started, before it looks for the others.
  const ToolResult third = Train({"--backend=nccl"}, OnDoubles({"ZEROSHARD_DOUBLE_DEVICES=2", "RANK=2", "WORLD_SIZE=3",
                                                                "LOCAL_RANK=2", "MASTER_ADDR=localhost", "MASTER_PORT=1"}));
  ExpectOneLine(third);
  EXPECT_THAT(third.errors, StartsWith("too few GPUs: this machine's rank 2 wants one of its own, 2 are visible"));
}

// The launcher, ranks as threads, and a rank that somebody else started.
void ExpectRefusedEverywhere(const std::vector<std::string>& flags, const std::vector<std::string>& on_doubles,
                             const ::testing::Matcher<std::string>& words) {
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"RANK=0", "WORLD_SIZE=1", "LOCAL_RANK=0"}}) {
    std::vector<std::string> environment = OnDoubles(on_doubles);
    environment.insert(environment.end(), more.begin(), more.end());
    const ToolResult result = Train(flags, environment);
    ExpectOneLine(result);
    EXPECT_THAT(result.errors, words);
  }
}

TEST(TrainOnGpusRefuses, ACardThatNoKernelWasBuiltForWithBoth) {
  for (const char* backend : {"--backend=nccl", "--backend=gloo", "--backend=in_process"}) {
    ExpectRefusedEverywhere({"--device=cuda", backend}, {"ZEROSHARD_DOUBLE_ARCHITECTURE=75"},
                            AllOf(StartsWith("no kernel image for double of a GPU (sm_75): this program has sm_80, sm_90, "),
                                  HasSubstr("use another card (CUDA_VISIBLE_DEVICES)")));
  }
}

TEST(TrainOnGpusRefuses, AnOlderNcclThanItWasBuiltAgainstWithBothVersions) {
  ExpectRefusedEverywhere({"--backend=nccl"}, {"ZEROSHARD_DOUBLE_NCCL=22703"},
                          AllOf(ContainsRegex("^NCCL 2.27.3 is loaded, and this program was built against 2.2[89]"),
                                HasSubstr("LD_LIBRARY_PATH")));
}

TEST(TrainOnGpusRefuses, ANetworkInterfaceThatIsNotThereWithThoseThatAre) {
  ExpectRefusedEverywhere({"--backend=nccl"}, {"NCCL_SOCKET_IFNAME=nonexistent"},
                          AllOf(StartsWith("NCCL_SOCKET_IFNAME=nonexistent: no network interface of this host fits"),
                                ContainsRegex("those that are up: .*lo")));
  ExpectRefusedEverywhere({"--backend=nccl", "--bind=nonexistent"}, {}, HasSubstr("nonexistent"));
}

// Each end names both, and says it as why it does not start.
TEST(TrainOnGpusRefuses, RanksWhoseLibrariesDifferWithBothVersions) {
  const std::string text = WriteFile("text.txt", SomeText(20'000));
  Cores();
  struct Library {
    std::string backend, variable, versions[2], words[2];
  };
  for (const Library& library :
       {Library{"nccl", "ZEROSHARD_DOUBLE_NCCL=", {"29901", "29902"}, {"NCCL 2.99.1", "NCCL 2.99.2"}},
        Library{"gloo", "ZEROSHARD_DOUBLE_CUBLASLT=", {"990001", "990002"}, {"cuBLASLt 99.0.1", "cuBLASLt 99.0.2"}}}) {
    const std::string store = "--store=file:" + ::testing::TempDir() + "/two_versions_" + library.backend;
    const auto start = [&](int rank) {
      const std::string number = absl::StrCat(rank);
      return ToolProcess(
          "tools/train",
          {"--backend=" + library.backend, "--device=cuda", "--data=" + text, "--tokenizer=bytes", store, "--timeout=60"},
          OnDoubles({"RANK=" + number, "WORLD_SIZE=2", "LOCAL_RANK=" + number, library.variable + library.versions[rank]}));
    };
    ToolProcess zero = start(0), one = start(1);
    for (ToolProcess* rank : {&zero, &one}) {
      const ToolResult result = rank->Wait();
      EXPECT_EQ(Cores().Dumps(result), "");
      EXPECT_EQ(result.code, 2) << result.errors;
      EXPECT_THAT(LastLine(result.errors),
                  AllOf(StartsWith("error: rank 0 has " + library.words[0]), HasSubstr("rank 1 has " + library.words[1]),
                        HasSubstr("all ranks need the same version of each library"), HasSubstr("LD_LIBRARY_PATH")));
    }
  }
}

// A model of 5 MB of states on a GPU of 1 MB.
std::vector<std::string> Small(const std::vector<std::string>& more) {
  static const std::string text = WriteFile("text.txt", SomeText(20'000));
  std::vector<std::string> flags = {"--device=cuda", "--data=" + text, "--tokenizer=bytes", "--layers=4", "--heads=2",
                                    "--width=64",    "--context=32",   "--batch=4",         "--steps=2",  "--sample=0"};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

void ExpectTheTable(const std::string& errors) {
  EXPECT_THAT(errors, AllOf(ContainsRegex("MB of a rank +needed +stage 0 +stage 1 +.stage 2 +stage 3"),
                            ContainsRegex("moments +[0-9]"), ContainsRegex("activations +[1-9]"),
                            ContainsRegex("total +[1-9]"), ContainsRegex("of it, in host memory +[0-9]")));
}

TEST(TrainOnGpusRefuses, ModelsThatNoMemoryOfTheirsSufficesForWithTheTable) {
  for (const char* backend : {"--backend=nccl", "--backend=gloo", "--backend=in_process"}) {
    const ToolResult result = Train(Small({backend, "--nproc=2"}), OnDoubles({"ZEROSHARD_DOUBLE_MEMORY=1000000"}));
    EXPECT_EQ(result.code, 2) << result.errors;
    EXPECT_EQ(result.output, "");
    ExpectTheTable(result.errors);
    EXPECT_THAT(LastLine(result.errors),
                AllOf(ContainsRegex("^error: a rank needs [0-9.]+ MB or more, and the GPU has 1.0 MB; less is needed with "),
                      ContainsRegex("--offload_optimizer=cpu .[0-9.]+ MB., "
                                    "--activation_checkpoint_every=1 .[0-9.]+ MB., --batch=1 .[0-9.]+ MB.")));
    EXPECT_THAT(result.errors, ::testing::Not(HasSubstr("[rank")));
  }
}

// What others hold of a GPU its rank sees first. What its own device has taken, a piece of 64 MiB, counts as left.
TEST(TrainOnGpusRefuses, ModelsThatWhatIsLeftDoesNotSufficeForBeforeRanksSpeak) {
  for (const char* backend : {"--backend=nccl", "--backend=gloo", "--backend=in_process"}) {
    const ToolResult result = Train(Small({backend, "--nproc=2", "--batch=200"}),
                                    OnDoubles({"ZEROSHARD_DOUBLE_MEMORY=260000000", "ZEROSHARD_DOUBLE_IN_USE=190000000"}));
    EXPECT_EQ(result.code, 2) << result.errors;
    ExpectTheTable(result.errors);
    EXPECT_THAT(LastLine(result.errors),
                ContainsRegex("rank [01]: a rank needs [0-9.]+ MB or more, and the GPU has 70.0 MB left; "));
  }
}

TEST(TrainOnGpusRefuses, RanksThatShareAGpuThatDoesNotSufficeForThemTogether) {
  const std::vector<std::string> shared = Small({"--backend=gloo", "--nproc=4", "--share_gpu"});
  const std::vector<std::string> one_gpu = OnDoubles({"ZEROSHARD_DOUBLE_DEVICES=1", "ZEROSHARD_DOUBLE_MEMORY=10000000"});
  const ToolResult result = Train(shared, one_gpu);
  EXPECT_EQ(result.code, 2) << result.errors;
  EXPECT_THAT(LastLine(result.errors),
              ContainsRegex("^error: 4 ranks together need [0-9.]+ MB or more, and the GPU has 10.0 MB; "));
}

// What is sure fits, the pieces that it is taken in do not.
TEST(TrainOnGpusEnds, WhereMemoryDidNotSufficeWithTheTableAndNcclsWords) {
  const ToolResult result = Train(Small({"--backend=nccl", "--nproc=2"}), OnDoubles({"ZEROSHARD_DOUBLE_MEMORY=106000000"}));
  EXPECT_EQ(result.code, 6) << result.errors;
  EXPECT_THAT(result.errors, ContainsRegex("bytes +now +peak +predicted"));
  EXPECT_THAT(
      LastLine(result.errors),
      ContainsRegex("^train: rank [01]: scratch of collectives: 67108864 bytes: ncclMemAlloc: .*; ncclGetLastError says "
                    "'the double says no more'; .* need less"));
}

TEST(TrainOnGpusRefuses, TheCpuUnderNccl) {
  const ToolResult result = Train({"--device=cpu", "--backend=nccl"});
  ExpectOneLine(result);
  EXPECT_THAT(result.errors, HasSubstr("--backend=nccl joins GPUs"));
}

TEST(TrainOnGpusRefuses, OnTheTrueLibrariesWithoutADriver) {
  if (std::filesystem::exists("/proc/driver/nvidia/version")) GTEST_SKIP() << "this machine has an NVIDIA driver";
  const ToolResult result = Train({"--backend=nccl"});
  ExpectOneLine(result);
  EXPECT_THAT(result.errors, StartsWith("no NVIDIA driver: "));
}

}  // namespace
}  // namespace zeroshard::integration_tests

// A kernel of one rank reads an illegal address in the middle of a run: CUDA gives that error to every later call of the process. On the
// doubles.
#include <memory>
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
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kWords[] = "an illegal memory access was encountered (cudaError700)";
constexpr char kDevice[] = "device 1 (double of a GPU): ";
constexpr int kExitPeerLost = 4;

std::vector<std::string> Endless(const std::string& backend, const std::vector<std::string>& more) {
  static const std::string text = WriteFile("text.txt", SomeText(20'000));
  std::vector<std::string> flags = {"--backend=" + backend,
                                    "--device=cuda",
                                    "--data=" + text,
                                    "--tokenizer=bytes",
                                    "--layers=1",
                                    "--heads=2",
                                    "--width=16",
                                    "--context=8",
                                    "--batch=2",
                                    "--threads=1",
                                    "--sample=0",
                                    "--timeout=60",
                                    "--stage=2",
                                    "--steps=1000000",
                                    "--nproc=3"};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

// Of the loss, once a step: in the fifth, when operations are agreed upon no more before NCCL sees them.
std::vector<std::string> WithAFault(const std::vector<std::string>& more = {}) {
  std::vector<std::string> environment = OnDoubles({"ZEROSHARD_DOUBLE_FAULT=1:SumKernel:5"});
  environment.insert(environment.end(), more.begin(), more.end());
  return environment;
}

void ExpectEnded(const CoreWatch& cores, const ToolResult& result) {
  EXPECT_EQ(result.code, kExitPeerLost) << result.errors;
  EXPECT_EQ(cores.Dumps(result), "");
  EXPECT_THAT(result.errors, AllOf(HasSubstr("step 1/"), Not(HasSubstr("*** ")), Not(HasSubstr("terminate called"))));
}

class AStickyErrorOfCuda : public ::testing::TestWithParam<const char*> {};

TEST_P(AStickyErrorOfCuda, EndsItsRankWithCudasWordsAndTheOthersNameIt) {
  const CoreWatch cores;
  const std::string store = absl::StrCat("--store=file:", ::testing::TempDir(), "/", GetParam());
  std::vector<std::unique_ptr<ToolProcess>> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.push_back(std::make_unique<ToolProcess>(
        "tools/train", Endless(GetParam(), {store}),
        WithAFault({absl::StrCat("RANK=", rank), "WORLD_SIZE=3", absl::StrCat("LOCAL_RANK=", rank)})));
  }
  for (int rank = 0; rank < 3; ++rank) {
    const ToolResult result = ranks[static_cast<size_t>(rank)]->Wait();
    EXPECT_EQ(result.code, kExitPeerLost) << result.errors;
    EXPECT_EQ(cores.Dumps(result), "");
    const std::string last = LastLine(result.errors);
    EXPECT_THAT(last, AllOf(StartsWith("error: "), HasSubstr(kWords), HasSubstr(kDevice)));
    if (rank == 1) continue;
    EXPECT_THAT(last, HasSubstr("rank 1"));
  }
}

TEST_P(AStickyErrorOfCuda, EndsTheJobWithCudasWords) {
  const CoreWatch cores;
  const ToolResult result = RunTool("tools/train", Endless(GetParam(), {}), WithAFault());
  ExpectEnded(cores, result);
  EXPECT_THAT(LastLine(result.errors), AllOf(StartsWith("train: rank "), HasSubstr(kDevice), HasSubstr(kWords)));
}

INSTANTIATE_TEST_SUITE_P(Over, AStickyErrorOfCuda, ::testing::Values("nccl", "gloo"),
                         [](const auto& backend) { return std::string(backend.param); });

TEST(AStickyErrorOfCudaAmongThreads, EndsThemAll) {
  const CoreWatch cores;
  const ToolResult result = RunTool("tools/train", Endless("in_process", {}), WithAFault());
  ExpectEnded(cores, result);
  EXPECT_THAT(LastLine(result.errors), AllOf(StartsWith("error: rank "), HasSubstr(kDevice), HasSubstr(kWords)));
}

}  // namespace
}  // namespace zeroshard::integration_tests

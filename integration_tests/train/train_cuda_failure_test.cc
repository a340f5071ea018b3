// Why a run on GPUs does not start: on the doubles, which can lack a driver, and on the true libraries where this machine lacks one.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "zeroshard/integration_tests/train/on_doubles.h"
#include "zeroshard/integration_tests/train/tool_process.h"

namespace zeroshard::integration_tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

void ExpectOneLine(const ToolResult& result) {
  EXPECT_EQ(result.code, 2) << result.errors;
  EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1) << result.errors;
  EXPECT_EQ(result.output, "");
}

TEST(TrainOnGpusRefuses, WithoutADriver) {
  for (const char* asked : {"--backend=nccl", "--device=cuda"}) {
    // The launcher, and a rank that somebody else started.
    for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"RANK=0", "WORLD_SIZE=1", "LOCAL_RANK=0"}}) {
      std::vector<std::string> environment = OnDoubles(more);
      environment.push_back("ZEROSHARD_DOUBLE_DRIVER=0");
      const ToolResult result = RunTool("tools/train", {asked}, environment);
      ExpectOneLine(result);
      EXPECT_THAT(result.errors, AllOf(StartsWith("no NVIDIA driver: "), HasSubstr("leave out")));
    }
  }
}

TEST(TrainOnGpusRefuses, ADriverThatIsTooOldWithBothVersions) {
  const ToolResult result = RunTool("tools/train", {"--device=cuda"}, OnDoubles({"ZEROSHARD_DOUBLE_DRIVER=12020"}));
  ExpectOneLine(result);
  EXPECT_THAT(result.errors, HasSubstr("it has CUDA 12.2, this program needs 13."));
}

TEST(TrainOnGpusRefuses, TooFewGpusWithBothNumbers) {
  const ToolResult none = RunTool("tools/train", {"--device=cuda"}, OnDoubles({"ZEROSHARD_DOUBLE_DEVICES=0"}));
  ExpectOneLine(none);
  EXPECT_THAT(none.errors, StartsWith("no GPU: "));
  const ToolResult few = RunTool("tools/train", {"--device=cuda", "--nproc=3"}, OnDoubles({"ZEROSHARD_DOUBLE_DEVICES=2"}));
  ExpectOneLine(few);
  EXPECT_THAT(few.errors, StartsWith("too few GPUs: 3 ranks, 2 visible"));
}

TEST(TrainOnGpusRefuses, TheCpuUnderNccl) {
  const ToolResult result = RunTool("tools/train", {"--device=cpu", "--backend=nccl"});
  ExpectOneLine(result);
  EXPECT_THAT(result.errors, HasSubstr("--backend=nccl joins GPUs"));
}

TEST(TrainOnGpusRefuses, OnTheTrueLibrariesWithoutADriver) {
  if (std::filesystem::exists("/proc/driver/nvidia/version")) GTEST_SKIP() << "this machine has an NVIDIA driver";
  const ToolResult result = RunTool("tools/train", {"--backend=nccl"});
  ExpectOneLine(result);
  EXPECT_THAT(result.errors, StartsWith("no NVIDIA driver: "));
}

}  // namespace
}  // namespace zeroshard::integration_tests

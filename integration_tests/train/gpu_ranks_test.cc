// Which ranks a job of GPUs has, and which GPU each, on the doubles.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "zeroshard/integration_tests/train/on_doubles.h"
#include "zeroshard/integration_tests/train/tool_process.h"

namespace zeroshard::integration_tests {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> OnDoubles(int devices, std::vector<std::string> more = {}) {
  more.push_back(absl::StrCat("ZEROSHARD_DOUBLE_DEVICES=", devices));
  return integration_tests::OnDoubles(more);
}

const std::vector<std::string> kBench = {"--ops=barrier", "--sizes=4", "--iterations=1", "--timeout=60"};

std::vector<std::string> Bench(std::vector<std::string> flags) {
  flags.insert(flags.end(), kBench.begin(), kBench.end());
  return flags;
}

TEST(GpuRanks, AreOneForEachVisibleGpuWhereNobodySays) {
  for (const char* backend : {"--backend=nccl", "--backend=gloo", "--backend=in_process"}) {
    const ToolResult three = RunTool("tools/comm_bench", Bench({backend, "--device=cuda"}), OnDoubles(3));
    EXPECT_EQ(three.code, 0) << three.errors;
    EXPECT_THAT(three.output, HasSubstr(", 3 ranks,")) << backend;
  }
  const ToolResult one = RunTool("tools/comm_bench", Bench({"--backend=nccl"}), OnDoubles(1));
  EXPECT_EQ(one.code, 0) << one.errors;
  EXPECT_THAT(one.output, HasSubstr("# nccl, 1 ranks,"));
}

TEST(GpuRanks, AreAsManyAsAskedFor) {
  const ToolResult fewer = RunTool("tools/comm_bench", Bench({"--backend=nccl", "--nproc=2"}), OnDoubles(3));
  EXPECT_EQ(fewer.code, 0) << fewer.errors;
  EXPECT_THAT(fewer.output, HasSubstr("# nccl, 2 ranks,"));
  for (const std::string backend : {"gloo", "nccl"}) {
    const ToolResult shared = RunTool(
        "tools/comm_bench", Bench({"--backend=" + backend, "--device=cuda", "--nproc=3", "--share_gpu"}), OnDoubles(2));
    EXPECT_EQ(shared.code, 0) << shared.errors;
    EXPECT_THAT(shared.output, HasSubstr("# " + backend + ", 3 ranks,"));
  }
}

// The double's native sums go down from the last rank, rounded at every hop.
TEST(GpuCollectives, AreVerifiedByTheTreeAndByNcclsOwnSums) {
  for (const char* reduction : {"--reduction=tree", "--reduction=native"}) {
    for (const char* dtype : {"fp32", "fp64", "bf16", "fp16", "int32"}) {
      const ToolResult result = RunTool("tools/comm_bench",
                                        {"--backend=nccl", "--nproc=3", reduction, absl::StrCat("--dtype=", dtype),
                                         "--sizes=8,10000", "--iterations=2", "--timeout=60"},
                                        OnDoubles(3));
      EXPECT_EQ(result.code, 0) << reduction << " " << dtype << "\n" << result.errors;
    }
  }
}

// As a launcher does that gives all ranks the same local rank.
TEST(GpuRanks, ThatAreOnOneGpuAreRefusedWithHostUuidAndBothRanks) {
  for (const std::string backend : {"nccl", "gloo"}) {
    const std::string store = absl::StrCat("--store=file:", ::testing::TempDir(), "/one_gpu_", backend);
    const auto start = [&](int rank) {
      return ToolProcess("tools/comm_bench", Bench({"--backend=" + backend, "--device=cuda", store}),
                         OnDoubles(2, {absl::StrCat("RANK=", rank), "WORLD_SIZE=2", "LOCAL_RANK=0"}));
    };
    ToolProcess zero = start(0), one = start(1);
    for (ToolProcess* rank : {&zero, &one}) {
      const ToolResult result = rank->Wait();
      EXPECT_EQ(result.code, 2) << result.errors;
      EXPECT_THAT(LastLine(result.errors), HasSubstr("ranks 0 and 1 are on one GPU (host "));
      EXPECT_THAT(LastLine(result.errors),
                  HasSubstr(", GPU-01010101-0101-0101-0101-010101010101): start one rank for each"));
    }
  }
}

const std::vector<std::string> kSmallCards = OnDoubles(2, {"ZEROSHARD_DOUBLE_MEMORY=300000000"});

// Of one backend's collectives: those that no card has room for, and those that a card has not where others hold some of it.
void ExpectRefused(const std::string& backend, const std::string& sizes, const std::string& bytes,
                   const std::string& words) {
  std::vector<std::string> cards = kSmallCards;
  cards.emplace_back("ZEROSHARD_DOUBLE_IN_USE=50000000");
  const ToolResult result =
      RunTool("tools/comm_bench", {"--backend=" + backend, "--device=cuda", "--nproc=2", sizes, "--timeout=60"}, cards);
  EXPECT_EQ(result.code, 2) << result.errors;
  EXPECT_EQ(result.output, "");
  EXPECT_THAT(result.errors, ::testing::ContainsRegex("communication  +0 +0 +" + bytes + "\n"));
  EXPECT_THAT(LastLine(result.errors), HasSubstr(words + "; less is needed with smaller --sizes"));
}

// Beside the largest case: 2272 bytes of the device's, NCCL's 64 MiB, or of the host 4 MiB for staging and what the transport's pieces take.
TEST(GpuMemory, ThatCannotSufficeIsRefusedWithWhatIsNeeded) {
  constexpr char kLargest[] = "--sizes=4,400000000", kLarge[] = "--sizes=4,220000000", kLarger[] = "--sizes=4,280000000";
  ExpectRefused("nccl", kLargest, "467111136", "error: a rank needs 467.1 MB or more, and the GPU has 300.0 MB");
  ExpectRefused("nccl", kLarge, "287111136", "a rank needs 287.1 MB or more, and the GPU has 250.0 MB left");
  ExpectRefused("gloo", kLargest, "408390880", "error: a rank needs 400.0 MB or more, and the GPU has 300.0 MB");
  ExpectRefused("gloo", kLarger, "288390880", "a rank needs 280.0 MB or more, and the GPU has 250.0 MB left");
  ExpectRefused("in_process", kLargest, "405245152", "error: a rank needs 400.0 MB or more, and the GPU has 300.0 MB");
  ExpectRefused("in_process", kLarger, "285245152", "a rank needs 280.0 MB or more, and the GPU has 250.0 MB left");
  const ToolResult shared = RunTool("tools/comm_bench",
                                    {"--backend=gloo", "--device=cuda", "--nproc=4", "--share_gpu", "--noin_place",
                                     "--ops=all_reduce", "--sizes=80000000"},
                                    kSmallCards);
  EXPECT_EQ(shared.code, 2) << shared.errors;
  EXPECT_THAT(LastLine(shared.errors), HasSubstr("error: 2 ranks together need 320.0 MB or more, and the GPU has 300.0 MB"));
  EXPECT_THAT(LastLine(shared.errors), ::testing::EndsWith(", --in_place"));
}

// Each size fits by itself; what the first has taken of the card stays taken.
TEST(GpuMemory, ThatDoesNotSufficeIsSaidWithWhoHoldsIt) {
  for (const char* ranks : {"--nproc=1", "--nproc=2"}) {
    const ToolResult result = RunTool("tools/comm_bench",
                                      {"--backend=gloo", "--device=cuda", ranks, "--ops=broadcast",
                                       "--sizes=150000000,200000000", "--iterations=1", "--timeout=60"},
                                      kSmallCards);
    EXPECT_EQ(result.code, 6) << result.errors;
    EXPECT_THAT(result.errors, ::testing::AllOf(HasSubstr("predicted"), HasSubstr("communication   ")));
    EXPECT_THAT(LastLine(result.errors),
                ::testing::ContainsRegex(": the GPU has no 200000000 bytes: [0-9]+ of its 300000000 are free; "
                                         "a smaller micro-batch, .*need less$"));
  }
}

}  // namespace
}  // namespace zeroshard::integration_tests

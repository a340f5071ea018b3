// What gpu_check.sh makes of its programs' answers, with programs of the test's own: what all phases share, golden runs and NCCL.
#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "zeroshard/tools/gpu_check/bundle_folder.h"

namespace zeroshard::tools {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;
using Json = nlohmann::json;

constexpr char kGolden[] = "echo '{\"max_relative_loss_error\": 1e-7, \"max_relative_norm_error\": 1e-7, \"bits\": \"1\"}'";

TEST(GpuCheck, SaysInOneLineThatThereIsNoDriver) {
  const BundleFolder bundle;
  bundle.Program("payload/bin/comm_bench", "echo 'no NVIDIA driver: install one' >&2; exit 2");
  const ShellResult result = bundle.Check("1 4");
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.said, "no NVIDIA driver: install one\n");
}

TEST(GpuCheck, RefusesAPhaseThatThereIsNotBeforeAnyIsRun) {
  const BundleFolder bundle;
  for (const std::string phase : {"6", "12", "nccl"}) {
    const ShellResult result = bundle.Check("5 " + phase);
    EXPECT_EQ(result.code, 2);
    EXPECT_EQ(result.said, "gpu_check: there is no phase '" + phase + "': there are 1, 2, 3, 4 and 5\n");
  }
  EXPECT_FALSE(std::filesystem::exists(bundle.path() + "/results/phase_5.jsonl"));
}

TEST(GpuCheck, WithoutPhasesSaysWhichThereAre) {
  const BundleFolder bundle;
  const ShellResult result = bundle.Check("");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.said, StartsWith("gpu_check.sh PHASE..."));
  EXPECT_THAT(result.said, EndsWith("gpu_check/README.md says more.\n"));
}

TEST(GpuCheck, APhaseThatFailsHidesNoOther) {
  const BundleFolder bundle;
  bundle.Program("payload/bin/kernels_on_gpu_test", "echo 'Gelu differs' >&2; exit 1");
  bundle.Program("payload/bin/device_properties", "echo '{\"name\": \"card\"}'");
  const ShellResult result = bundle.Check("1 5");
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.said, HasSubstr("phase 1: kernels: FAILED: Gelu differs (0 s)\n"));
  EXPECT_THAT(result.said, HasSubstr("phase 5: passed: 1 checks passed, 0 failed, 0 left out"));
  EXPECT_EQ(bundle.End(1)["passed"], false);
  EXPECT_THAT(bundle.End(1)["failed"], ElementsAre("kernels"));
  EXPECT_EQ(bundle.Named(1, "kernels")["error"], "Gelu differs");
  EXPECT_EQ(bundle.End(5)["passed"], true);
  EXPECT_EQ(bundle.Named(5, "device_properties_0")["result"]["name"], "card");
}

TEST(GpuCheck, ChecksEveryGpuThatThereIs) {
  const BundleFolder bundle;
  bundle.Gpus(2);
  bundle.Program("payload/bin/device_properties", "echo \"{\\\"ordinal\\\": $1}\"");
  EXPECT_EQ(bundle.Check("5").code, 0);
  EXPECT_EQ(bundle.End(5)["gpus"], 2);
  EXPECT_EQ(bundle.Named(5, "device_properties_1")["result"]["ordinal"], 1);
}

TEST(GpuCheck, GpusThatCannotBeCountedAreSaidAndOneIsTaken) {
  const BundleFolder bundle;
  bundle.Program("payload/bin/comm_bench", "exit 4");
  bundle.Program("payload/bin/device_properties", "echo '{}'");
  const ShellResult result = bundle.Check("5");
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.said, StartsWith("gpu_check: the GPUs could not be counted (exit code 4; "));
  EXPECT_EQ(bundle.End(5)["gpus"], 1);
}

TEST(GpuCheck, SaysWhatThereWasNoTimeFor) {
  const BundleFolder bundle;
  bundle.Program("payload/bin/device_properties", "echo '{}'");
  EXPECT_EQ(bundle.Check("5", "ZEROSHARD_GPU_CHECK_SECONDS=0").code, 1);
  EXPECT_EQ(bundle.Named(5, "device_properties_0")["error"], "not begun: the phase has had its 0 seconds");
}

// And what it said last.
TEST(GpuCheck, ACheckThatHangsIsCutOffAndLeavesTheOthersTheirTime) {
  const BundleFolder bundle;
  const std::string sizes = bundle.path() + "/sizes.sh";
  std::ofstream(sizes) << "source tools/gpu_check/sizes.sh\nranks=()\nstages=(0 1)\ngolden_seconds=2\n";
  std::filesystem::create_directories(bundle.path() + "/golden/adamw");
  bundle.Program("payload/bin/golden",
                 std::string("case \"$*\" in *stage=0*) echo 'rank 0 waits' >&2; exec sleep 1000 ;; esac\n") + kGolden);
  EXPECT_EQ(bundle.Check("2", "ZEROSHARD_GPU_CHECK_SIZES=" + sizes).code, 1);
  EXPECT_THAT(bundle.Named(2, "golden_adamw_stage_0_1")["error"].get<std::string>(),
              MatchesRegex("cut off after [0-9]+ s, since its time was over; it said last: rank 0 waits"));
  EXPECT_TRUE(bundle.Named(2, "golden_adamw_stage_1_1").contains("result"));
}

// What was measured before stays, and the phase ends, though its own script does not come to its end.
TEST(GpuCheck, APhaseThatIsKilledKeepsWhatItHas) {
  const BundleFolder bundle;
  bundle.Gpus(2);
  bundle.Program("payload/bin/device_properties",
                 "[ $1 = 1 ] || { echo '{}'; exit 0; }\n"
                 "timeout=$(sed -nE 's/^PPid:\\s*//p' /proc/$$/status)\n"
                 "kill -KILL $(sed -nE 's/^PPid:\\s*//p' /proc/$timeout/status)");
  EXPECT_EQ(bundle.Check("5").code, 1);
  EXPECT_EQ(bundle.Named(5, "device_properties_0")["passed"], true);
  EXPECT_THAT(bundle.Named(5, "time")["error"].get<std::string>(), StartsWith("the phase was ended after "));
  EXPECT_EQ(bundle.End(5)["passed"], false);
}

// As the kernel has it: "S" of one that sleeps, "Z" of one that nobody has waited for; nothing of none.
std::string StateOf(pid_t process) {
  std::string pid, name, state;
  std::ifstream("/proc/" + std::to_string(process) + "/stat") >> pid >> name >> state;
  return state;
}

// Rather than to wait for it, or to leave it there.
TEST(GpuCheck, EndsAChildThatOutlivesItsProgram) {
  const BundleFolder bundle;
  bundle.Program("payload/bin/device_properties", "sleep 1000 &\necho $! >" + bundle.path() + "/child\necho '{}'");
  EXPECT_EQ(bundle.Check("5").code, 0);
  pid_t child = 0;
  std::ifstream(bundle.path() + "/child") >> child;
  ASSERT_GT(child, 0);
  // It was told to go, and is gone once it has run again.
  std::string state;
  for (int look = 0; look < 3000; ++look) {
    state = StateOf(child);
    if (state.empty() || state == "Z" || state == "X") break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_THAT(state, AnyOf("", "Z", "X"));
}

TEST(GpuCheck, WhatCannotBeReadFails) {
  const BundleFolder bundle;
  std::filesystem::create_directories(bundle.path() + "/golden/adamw");
  bundle.Program("payload/bin/golden",
                 "case $* in\n  *in_process*) echo '{\"bits\"' ;;\n  *nproc=1*) echo '{\"bits\": 1}' ;;\n"
                 "  *) echo '{\"max_relative_loss_error\": NaN}' ;;\nesac");
  EXPECT_EQ(bundle.Check("2").code, 1);
  EXPECT_EQ(bundle.Named(2, "golden_adamw_stage_0_1")["error"], "max_relative_loss_error is None, and may be 4e-07");
  EXPECT_EQ(bundle.Named(2, "golden_adamw_stage_0_gloo_2")["error"], "max_relative_loss_error is None, and may be 4e-07");
  EXPECT_THAT(bundle.Named(2, "golden_adamw_stage_0_in_process_2")["error"].get<std::string>(),
              StartsWith("nobody could read what it said: "));
}

// All that phase 3 calls but NCCL's own sums in bf16 ends well.
class GpuCheckOfNccl : public ::testing::Test {
 protected:
  GpuCheckOfNccl() {
    bundle_.Program("payload/bin/comm_bench", "echo \"$@\" >>" + heard_ + "\ncase \"$*\" in\n  *native*bf16*) exit 1 ;;\n" +
                                                  "  *in_process*) echo '# in_process, 2 ranks,' ;;\nesac");
    bundle_.Program("payload/bin/golden", kGolden);
    RankZeroThatSays("error: rank 0, all-gather #3: rank 1 is missing");
  }

  // When it has made a step. Rank 1 goes on until it is killed.
  void RankZeroThatSays(const std::string& error) {
    bundle_.Program("payload/bin/train",
                    "[ $RANK = 0 ] || exec sleep 1000\necho 'step 1/9' >&2\necho '" + error + "' >&2\nexit 4");
  }

  const BundleFolder bundle_;
  const std::string heard_ = bundle_.path() + "/heard";
};

TEST_F(GpuCheckOfNccl, HoldsItsOwnSumsToTheirBoundInEveryDTypeAndNumberOfRanks) {
  EXPECT_EQ(bundle_.Check("3").code, 1);
  for (const char* ranks : {"2", "3", "4"}) {
    for (const char* dtype : {"fp32", "bf16", "fp16"}) {
      const std::string check = std::string("nccl_native_") + dtype + "_" + ranks;
      EXPECT_EQ(bundle_.Named(3, check)["passed"], dtype != std::string("bf16")) << check;
    }
    EXPECT_EQ(bundle_.Named(3, std::string("nccl_native_golden_") + ranks)["passed"], true);
  }
  EXPECT_EQ(bundle_.Named(3, "nccl_rank_killed")["result"]["said"], "error: rank 0, all-gather #3: rank 1 is missing");
  std::stringstream calls;
  calls << std::ifstream(heard_).rdbuf();
  // On two GPUs.
  EXPECT_THAT(calls.str(), HasSubstr("--reduction=native --nproc=2 --timeout=40 --dtype=fp16"));
  EXPECT_THAT(calls.str(), HasSubstr("--reduction=native --nproc=3 --timeout=40 --share_gpu --dtype=fp16"));
}

TEST_F(GpuCheckOfNccl, HasGloosBitsByTheTree) {
  bundle_.Program("payload/bin/golden",
                  std::string("case \"$*\" in *gloo*nproc=3*) echo '{\"bits\": \"2\"}' ;; *) ") + kGolden + " ;; esac");
  EXPECT_EQ(bundle_.Check("3").code, 1);
  EXPECT_EQ(bundle_.Named(3, "nccl_bits_2")["passed"], true);
  EXPECT_EQ(bundle_.Named(3, "nccl_bits_3")["error"], "nccl's tree has the bits '1', gloo '2'");
}

TEST_F(GpuCheckOfNccl, ASurvivorIsToNameTheRankThatWasKilled) {
  const std::string sizes = bundle_.path() + "/sizes.sh", no_more = "ZEROSHARD_GPU_CHECK_SIZES=" + sizes;
  std::ofstream(sizes) << "source tools/gpu_check/sizes.sh\nranks=()\n";
  RankZeroThatSays("error: rank 0, all-gather #3: timed out");
  EXPECT_EQ(bundle_.Check("3", no_more).code, 1);
  EXPECT_THAT(bundle_.Named(3, "nccl_rank_killed")["error"].get<std::string>(),
              StartsWith("rank 0 has ended with 4, and has not named"));
  bundle_.Program("payload/bin/train", "[ $RANK = 0 ] || exec sleep 1000; echo 'error: no room' >&2; exit 6");
  EXPECT_EQ(bundle_.Check("3", no_more).code, 1);
  EXPECT_EQ(bundle_.Named(3, "nccl_rank_killed")["error"], "rank 0 has ended with 6 before its first step: error: no room");
}

}  // namespace
}  // namespace zeroshard::tools

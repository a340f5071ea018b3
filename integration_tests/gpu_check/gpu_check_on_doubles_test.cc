// All phases of tools/gpu_check.sh with the true programs on two doubles of GPUs, in small: each of its command lines is run, and is
// taken by the program that it is for.
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "zeroshard/tools/gpu_check/bundle_folder.h"

namespace zeroshard::integration_tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;
using tools::BundleFolder;
using tools::ShellResult;

class GpuCheckOnDoubles : public ::testing::Test {
 protected:
  GpuCheckOnDoubles() {
    for (const char* name : {"comm_bench", "golden", "train"}) bundle_.Link(name, std::string("tools/") + name);
    bundle_.Link("kernels_on_gpu_test", "device/cuda/kernels_on_doubles_program");
    bundle_.Link("device_properties", "device/cuda/device_properties_on_doubles");
    // The one that takes the least time, by the name that phases ask for.
    std::filesystem::create_directory_symlink(std::filesystem::absolute("integration_tests/testdata/golden/untied_odd"),
                                              bundle_.path() + "/golden/adamw");
  }

  // As from a shell that srun has started, whose variables are not the jobs'.
  ShellResult Check(const std::string& phases, const std::string& more = "") const {
    const std::string here = std::filesystem::current_path().string(), temporary = ::testing::TempDir();
    return bundle_.Check(
        phases, absl::StrCat("ZEROSHARD_CUDA_LIBRARY=", here, "/tools/libzeroshard_cuda_on_doubles.so ",
                             "ZEROSHARD_DOUBLE_DEVICES=2 OMP_NUM_THREADS=1 ZEROSHARD_GPU_CHECK_SECONDS=600 ",
                             "ZEROSHARD_GPU_CHECK_SIZES=integration_tests/gpu_check/small_sizes.sh ", "PYTHONPATH=", here,
                             "/integration_tests/gpu_check XDG_CACHE_HOME=", temporary, " TMPDIR=", temporary,
                             " SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_STEP_ID=0 ", more));
  }

  // The phase has passed, and so has each of its checks; none was left out.
  void ExpectWhole(int phase) const {
    const ShellResult result = Check(std::to_string(phase));
    EXPECT_EQ(result.code, 0) << result.said;
    for (const Json& line : bundle_.Lines(phase)) EXPECT_EQ(line["passed"], true) << line;
    EXPECT_THAT(bundle_.End(phase)["left_out"], IsEmpty());
    EXPECT_EQ(bundle_.End(phase)["gpus"], 2);
  }

  // A number of a check's result.
  double Number(int phase, const std::string& check, const std::string& key) const {
    const Json result = bundle_.Named(phase, check).value("result", Json::object());
    if (result.contains(key) && result[key].is_number()) return result[key];
    ADD_FAILURE() << "no " << key << " of " << check << ": " << result;
    return 0;
  }

  const BundleFolder bundle_;
};

// For compute-sanitizer and nvidia-smi: flags that they have, as their --help lists them.
constexpr char kSanitizer[] = "[ \"$1 $2\" = '--error-exitcode 1' ] || exit 9\nshift 2\nexec \"$@\"";
constexpr char kCard[] =
    "[ \"$*\" = '--id=0 --loop-ms=200 --format=csv,noheader,nounits --query-gpu=name,driver_version,clocks.sm,"
    "clocks.max.sm,power.draw,power.limit,utilization.gpu' ] || exit 9\n"
    "echo 'double of a GPU, 580.1, 1700, 1980, 650.0, 700.00, 99'\nexec sleep 1000";

TEST_F(GpuCheckOnDoubles, PhaseOneRunsEveryKernelAndEachSuiteUnderTheSanitizer) {
  bundle_.Program("path/compute-sanitizer", kSanitizer);
  ExpectWhole(1);
  const std::vector<std::string> names = bundle_.Names(1);
  EXPECT_GT(names.size(), 2u);
  EXPECT_EQ(names.front(), "kernels");
  EXPECT_EQ(names.back(), "kernels_sanitized_PlannedKernels");
  double sanitized = 0;
  for (const std::string& name : names) sanitized += name == "kernels" ? 0 : Number(1, name, "tests");
  EXPECT_EQ(sanitized, Number(1, "kernels", "tests"));
}

TEST_F(GpuCheckOnDoubles, PhaseTwoRunsGoldens) {
  ExpectWhole(2);
  std::vector<std::string> names;
  for (const std::string stage : {"0", "3"}) {
    names.push_back("golden_adamw_stage_" + stage + "_1");
    for (const std::string backend : {"gloo", "in_process"}) {
      for (const std::string ranks : {"2", "3"})
        names.push_back(absl::StrCat("golden_adamw_stage_", stage, "_", backend, "_", ranks));
    }
  }
  EXPECT_THAT(bundle_.Names(2), ::testing::UnorderedElementsAreArray(names));
}

TEST_F(GpuCheckOnDoubles, PhaseThreeRunsNcclAndKillsARankWhichTheOtherNames) {
  ExpectWhole(3);
  EXPECT_EQ(bundle_.Names(3).size(), 13u);
  EXPECT_THAT(bundle_.Named(3, "nccl_rank_killed")["result"]["said"].get<std::string>(), HasSubstr("rank 1 "));
  for (const char* check : {"nccl_golden_2", "gloo_golden_3", "nccl_native_golden_3"}) {
    EXPECT_LE(Number(3, check, "max_relative_loss_error"), 4e-7) << check;
  }
}

TEST_F(GpuCheckOnDoubles, PhaseFourComparesStepsWithFloorsCardStagesAndPyTorch) {
  bundle_.Program("path/nvidia-smi", kCard);
  ExpectWhole(4);
  EXPECT_THAT(bundle_.Names(4), ElementsAre("train_tiny", "floor_tiny", "compare_tiny", "train_small", "floor_small",
                                            "compare_small", "train_stage_0", "train_stage_3", "compare_stages",
                                            "torch_tiny", "compare_torch_tiny", "torch_small", "compare_torch_small"));
  for (const auto& [check, key] : std::vector<std::pair<std::string, std::string>>{{"compare_small", "of_floor"},
                                                                                   {"compare_small", "of_dense_peak"},
                                                                                   {"compare_small", "sm_mhz_median"},
                                                                                   {"compare_stages", "of_stage_0"},
                                                                                   {"compare_torch_small", "of_torch"}}) {
    EXPECT_GT(Number(4, check, key), 0) << check;
  }
}

TEST_F(GpuCheckOnDoubles, PhaseFiveReadsEachCardsProperties) {
  ExpectWhole(5);
  EXPECT_EQ(Number(5, "device_properties_0", "cudaDeviceId"), 0);
  EXPECT_EQ(Number(5, "device_properties_1", "cudaDeviceId"), 1);
}

// A kernel that breaks on the second card.
TEST_F(GpuCheckOnDoubles, AStepThatFailsIsInTheExitCodeAndInItsLineAndHidesNoOther) {
  const ShellResult result = Check("4 5", "ZEROSHARD_DOUBLE_FAULT=1:SumKernel:2");
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.said, HasSubstr("phase 4: train_stage_3: FAILED: "));
  EXPECT_EQ(bundle_.End(4)["passed"], false);
  EXPECT_THAT(bundle_.End(4)["failed"], ElementsAre("train_stage_0", "train_stage_3"));
  const Json failed = bundle_.Named(4, "train_stage_3");
  EXPECT_EQ(failed["passed"], false);
  EXPECT_GT(failed["exit_code"], 0);
  EXPECT_THAT(failed["error"].get<std::string>(), HasSubstr("an illegal memory access was encountered"));
  EXPECT_EQ(bundle_.Named(4, "torch_small")["passed"], true);
  EXPECT_EQ(bundle_.End(5)["passed"], true);
}

TEST_F(GpuCheckOnDoubles, WithoutPyTorchItsPeerSaysWhy) {
  const ShellResult peer = tools::RunShell("python3 tools/gpu_check/gpu_peer.py --layers=1 --heads=1 --width=8 --steps=1");
  EXPECT_EQ(peer.code, 3);
  EXPECT_THAT(Json::parse(peer.said, nullptr, false).value("left_out", ""), HasSubstr("PyTorch"));
}

}  // namespace
}  // namespace zeroshard::integration_tests

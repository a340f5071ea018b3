// What gpu_check.sh makes of its programs' answers, with programs of the test's own.
#include <sys/stat.h>
#include <sys/wait.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

struct Result {
  int code;
  std::string said;
};

Result RunShell(const std::string& command) {
  FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  Result result;
  std::array<char, 4096> part;
  for (size_t got; (got = fread(part.data(), 1, part.size(), pipe)) > 0;) result.said.append(part.data(), got);
  result.code = WEXITSTATUS(pclose(pipe));
  return result;
}

class GpuCheck : public ::testing::Test {
 protected:
  GpuCheck() : folder_(testing::TempDir() + "/" + testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::create_directories(folder_ + "/payload/bin");
    std::filesystem::create_directories(folder_ + "/path");
    Program("payload/bin/comm_bench", "");
    std::ofstream(folder_ + "/libc_version") << "2.0\n";
  }

  void Program(const std::string& name, const std::string& body) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << "#!/bin/sh\n" << body << "\n";
    chmod(path.c_str(), 0700);
  }
  Result Check(const std::string& phases, const std::string& environment = "") {
    RunShell("tar -C " + folder_ + "/payload -czf " + folder_ + "/payload.tar.gz .");
    return RunShell("env PATH=" + folder_ + "/path:$PATH ZEROSHARD_GPU_BUNDLE=" + folder_ + " " + environment +
                    " tools/gpu_check.sh " + phases);
  }
  Json Phase(int phase) const {
    std::ifstream file(folder_ + "/results/phase_" + std::to_string(phase) + ".json");
    return Json::parse(file, nullptr, false);
  }
  // A train that answers as the true one does, and a card that says its clocks.
  void TrainThatTakes(double floor_s) {
    std::ostringstream train;
    const std::string watched = folder_ + "/watched";  // the card has been asked
    train << "for flag; do\n  case $flag in\n    --step_floor)\n      until [ -e " << watched << " ]; do :; done\n      rm "
          << watched << "\n      echo '{\"floor_s_median\": " << floor_s << "}'\n      exit 0 ;;\n"
          << "    --summary=*) summary=${flag#--summary=} ;;\n  esac\ndone\n"
          << "echo '{\"step_s_median\": 0.1, \"tokens_per_s\": 327680, \"mfu\": 0.5, \"dtype\": \"bf16\"}' >\"$summary\"";
    Program("payload/bin/train", train.str());
    Program("path/nvidia-smi",
            "printf 'NVIDIA H100 80GB HBM3, 580.1, %s, 1980, 650.0, 700.00, 99\\n' 1700 1600 1800; : >" + watched);
  }

  const std::string folder_;
};

const Json& Named(const Json& phase, const std::string& check) {
  for (const Json& line : phase["checks"]) {
    if (line["check"] == check) return line;
  }
  ADD_FAILURE() << "no " << check << " in " << phase.dump();
  static const Json none;
  return none;
}

TEST_F(GpuCheck, SaysInOneLineThatThereIsNoDriver) {
  Program("payload/bin/comm_bench", "echo 'no NVIDIA driver: install one' >&2; exit 2");
  const Result result = Check("1 4");
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.said, "no NVIDIA driver: install one\n");
}

TEST_F(GpuCheck, APhaseThatFailsHidesNoOther) {
  Program("payload/bin/kernels_on_gpu_test", "echo 'Gelu differs' >&2; exit 1");
  Program("payload/bin/device_properties", "echo '{\"name\": \"card\"}'");
  EXPECT_EQ(Check("1 5").code, 1);
  EXPECT_EQ(Phase(1)["passed"], false);
  EXPECT_EQ(Phase(1)["ended"], true);
  EXPECT_EQ(Named(Phase(1), "kernels")["error"], "Gelu differs");
  EXPECT_EQ(Phase(5)["passed"], true);
  EXPECT_EQ(Named(Phase(5), "device_properties_0")["result"]["name"], "card");
}

TEST_F(GpuCheck, LeavesOutWhatThereIsNoTimeFor) {
  Program("payload/bin/device_properties", "echo '{}'");
  EXPECT_EQ(Check("5", "ZEROSHARD_GPU_CHECK_SECONDS=0").code, 1);
  EXPECT_THAT(Named(Phase(5), "device_properties_0")["error"].get<std::string>(), HasSubstr("left out"));
}

class GpuCheckOfKernels : public GpuCheck {
 protected:
  // Suites as Google Test lists them. `ends`: what it says of a run, by "$filter".
  void SuitesThatEnd(const std::string& ends) {
    Program("payload/bin/kernels_on_gpu_test",
            "filter=all\nfor flag; do\n  case $flag in\n    --gtest_list_tests)\n      printf '%s\\n' 'Running main() from "
            "gmock_main.cc' 'Orders/PlannedKernels.' '  Products/0  # GetParam() = 0' Plain. '  Test' Orders/Reduce. "
            "'  Tree/0'\n      exit 0 ;;\n    --gtest_filter=*) filter=${flag#*=} ;;\n  esac\ndone\n" +
                ends);
    Program("path/compute-sanitizer", "[ \"$1 $2\" = '--error-exitcode 1' ] || exit 9\nshift 2\nexec \"$@\"");
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    const Json phase = Phase(1);
    for (const Json& line : phase["checks"]) names.push_back(line["check"]);
    return names;
  }
};

TEST_F(GpuCheckOfKernels, RunsEachSuiteUnderTheSanitizerTheVendorsLast) {
  SuitesThatEnd("echo '[  PASSED  ] 2 tests.'");
  EXPECT_EQ(Check("1").code, 0) << Phase(1);
  EXPECT_THAT(Names(), ElementsAre("kernels", "kernels_sanitized_Plain", "kernels_sanitized_Reduce",
                                   "kernels_sanitized_PlannedKernels"));
  EXPECT_EQ(Named(Phase(1), "kernels_sanitized_Reduce")["result"]["tests"], 2);
}

TEST_F(GpuCheckOfKernels, ASuiteInWhichTheSanitizerFindsSomethingHidesNoOther) {
  SuitesThatEnd(
      "echo '[  PASSED  ] 2 tests.'\n[ \"$filter\" != 'Plain.*' ] || { echo '== ERROR SUMMARY: 3 errors'; exit 1; }");
  EXPECT_EQ(Check("1").code, 1);
  EXPECT_EQ(Named(Phase(1), "kernels_sanitized_Plain")["error"], "== ERROR SUMMARY: 3 errors");
  EXPECT_EQ(Named(Phase(1), "kernels_sanitized_PlannedKernels")["passed"], true);
}

// Though it ends with 0.
TEST_F(GpuCheckOfKernels, WhatWasSkippedHasNotPassed) {
  SuitesThatEnd(
      "case $filter in\n  Plain*) echo '[  PASSED  ] 0 tests.'; echo '[  SKIPPED ] 1 test, listed below:' ;;\n"
      "  *Reduce*) echo '[  PASSED  ] 1 test.'; echo '[  SKIPPED ] 1 test, listed below:' ;;\n"
      "  *) echo '[  PASSED  ] 9 tests.' ;;\nesac");
  EXPECT_EQ(Check("1").code, 1);
  EXPECT_EQ(Named(Phase(1), "kernels")["passed"], true);
  EXPECT_EQ(Named(Phase(1), "kernels_sanitized_Plain")["error"], "no test has run");
  EXPECT_EQ(Named(Phase(1), "kernels_sanitized_Reduce")["error"], "tests were skipped");
}

// A suite that does not end takes no more than its share of the phase.
TEST_F(GpuCheckOfKernels, ASuiteThatHangsLeavesTheOthersTheirTime) {
  SuitesThatEnd("echo '[  PASSED  ] 9 tests.'\n[ \"$filter\" != 'Plain.*' ] || exec sleep 1000");
  EXPECT_EQ(Check("1", "ZEROSHARD_GPU_CHECK_SECONDS=30").code, 1);
  EXPECT_EQ(Named(Phase(1), "kernels_sanitized_Plain")["error"], "ended, since its time was over");
  EXPECT_EQ(Named(Phase(1), "kernels_sanitized_Reduce")["passed"], true);
  EXPECT_EQ(Named(Phase(1), "kernels_sanitized_PlannedKernels")["passed"], true);
}

TEST_F(GpuCheck, HoldsNcclsOwnSumsToTheirBoundInEveryDTypeAndNumberOfRanks) {
  const std::string heard = folder_ + "/heard";
  const std::string golden =
      "echo '{\"max_relative_loss_error\": 1e-7, \"max_relative_norm_error\": 1e-7, \"bits\": \"1\"}'";
  Program("payload/bin/comm_bench", "echo \"$@\" >>" + heard + "\ncase \"$*\" in *native*bf16*) exit 1 ;; esac");
  Program("payload/bin/golden", golden);
  Program("payload/bin/train", "exit 4");
  Program("path/sleep", "");
  EXPECT_EQ(Check("3").code, 1);
  for (const char* ranks : {"2", "3", "4"}) {
    for (const char* dtype : {"fp32", "bf16", "fp16"}) {
      const std::string check = std::string("nccl_native_") + dtype + "_" + ranks;
      EXPECT_EQ(Named(Phase(3), check)["passed"], dtype != std::string("bf16")) << check;
    }
    EXPECT_EQ(Named(Phase(3), std::string("nccl_native_golden_") + ranks)["passed"], true);
  }
  std::stringstream calls;
  calls << std::ifstream(heard).rdbuf();
  EXPECT_THAT(calls.str(), HasSubstr("--backend=nccl --reduction=native --share_gpu --nproc=3 --dtype=fp16"));
}

// As the kernel has it: "S" of one that sleeps, "Z" of one that nobody has waited for; nothing of none.
std::string StateOf(pid_t process) {
  std::string pid, name, state;
  std::ifstream("/proc/" + std::to_string(process) + "/stat") >> pid >> name >> state;
  return state;
}

// Rather than to wait for it, or to leave it there.
TEST_F(GpuCheck, EndsAChildThatOutlivesItsProgram) {
  Program("payload/bin/device_properties", "sleep 1000 &\necho $! >" + folder_ + "/child\necho '{}'");
  EXPECT_EQ(Check("5").code, 0);
  pid_t child = 0;
  std::ifstream(folder_ + "/child") >> child;
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

TEST_F(GpuCheck, WhatCannotBeReadFails) {
  Program("payload/bin/golden", "echo '{\"bits\": 1}'");
  std::filesystem::create_directories(folder_ + "/golden/adamw");
  EXPECT_EQ(Check("2").code, 1);
  EXPECT_EQ(Named(Phase(2), "golden_adamw_stage_0_1")["passed"], false);
}

TEST_F(GpuCheck, HoldsAStepAgainstItsFloorAndTheCard) {
  TrainThatTakes(/*floor_s=*/0.085);
  const Result result = Check("4");
  EXPECT_EQ(result.code, 0) << result.said << Phase(4).dump(1);
  const Json compared = Named(Phase(4), "compare_774M")["result"];
  EXPECT_NEAR(compared["of_floor"].get<double>(), 0.85, 1e-9);
  EXPECT_EQ(compared["of_dense_peak"], 0.5);
  EXPECT_EQ(compared["gpu"], "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(compared["sm_mhz_median"], 1700);
  EXPECT_EQ(compared["power_w_max"], 650);
}

TEST_F(GpuCheck, HoldsStageThreeAgainstStageZeroOnSeveralGpus) {
  TrainThatTakes(0.09);
  Check("4", "CUDA_VISIBLE_DEVICES=0");
  EXPECT_EQ(Phase(4).dump().find("compare_stages"), std::string::npos);
  Check("4", "CUDA_VISIBLE_DEVICES=0,1");
  const Json stages = Named(Phase(4), "compare_stages");
  EXPECT_EQ(stages["passed"], true) << stages;
  EXPECT_EQ(stages["result"]["of_stage_0"], 1.0) << stages;
}

TEST_F(GpuCheck, AStepThatIsTooFarFromItsFloorFailsWithTheBound) {
  TrainThatTakes(/*floor_s=*/0.077);
  EXPECT_EQ(Check("4").code, 1);
  EXPECT_EQ(Named(Phase(4), "compare_124M")["passed"], true);
  EXPECT_EQ(Named(Phase(4), "compare_774M")["error"], "of_floor is to be 0.8");
}

}  // namespace

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

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace {

using ::testing::AnyOf;
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

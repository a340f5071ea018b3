// What gpu_check.sh makes of a step, its floor, the card, all GPUs and PyTorch, with programs of the test's own.
#include <fstream>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "zeroshard/tools/gpu_check/bundle_folder.h"

namespace zeroshard::tools {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;

class GpuCheckOfTraining : public ::testing::Test {
 protected:
  // A train that answers as the true one does, and a card that says its clocks.
  void TrainThatTakes(double floor_s) {
    std::ostringstream train;
    const std::string watched = bundle_.path() + "/watched";  // the card has been asked
    train << "echo \"$*\" >>" << bundle_.path()
          << "/heard\nfor flag; do\n  case $flag in\n    --step_floor)\n      until [ -e " << watched
          << " ]; do :; done\n      rm " << watched << "\n      echo '{\"floor_s_median\": " << floor_s
          << "}'\n      exit 0 ;;\n"
          << "    --summary=*) summary=${flag#--summary=} ;;\n  esac\ndone\n"
          << "echo '{\"step_s_median\": 0.1, \"tokens_per_s\": 327680, \"mfu\": 0.5, \"dtype\": \"bf16\"}' >\"$summary\"";
    bundle_.Program("payload/bin/train", train.str());
    bundle_.Program("path/nvidia-smi",
                    "printf 'NVIDIA H100 80GB HBM3, 580.1, %s, 1980, 650.0, 700.00, 99\\n' 1700 1600 1800; : >" + watched);
  }
  // The flags of all trains, and what a peer has made of its own.
  std::string Heard() const {
    std::stringstream heard;
    heard << std::ifstream(bundle_.path() + "/heard").rdbuf();
    return heard.str();
  }
  // What the peer says; anything else that is asked of it is Python's.
  void PeerThatSays(const std::string& says) {
    std::ofstream(bundle_.path() + "/python") << RunShell("command -v python3").said;
    bundle_.Program("path/python3", "case $1 in */gpu_peer.py) " + says + " ;; esac\nread -r python <" + bundle_.path() +
                                        "/python\nexec \"$python\" \"$@\"");
  }

  const BundleFolder bundle_;
};

TEST_F(GpuCheckOfTraining, HoldsAStepAgainstItsFloorAndTheCard) {
  TrainThatTakes(/*floor_s=*/0.085);
  PeerThatSays("echo '{\"left_out\": \"no PyTorch\"}'; exit 3");
  const ShellResult result = bundle_.Check("4");
  EXPECT_EQ(result.code, 0) << result.said;
  const Json compared = bundle_.Named(4, "compare_774M")["result"];
  EXPECT_NEAR(compared["of_floor"].get<double>(), 0.85, 1e-9);
  EXPECT_EQ(compared["of_dense_peak"], 0.5);
  EXPECT_EQ(compared["gpu"], "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(compared["sm_mhz_median"], 1700);
  EXPECT_EQ(compared["power_w_max"], 650);
}

TEST_F(GpuCheckOfTraining, AStepThatIsTooFarFromItsFloorFailsWithTheBound) {
  TrainThatTakes(/*floor_s=*/0.077);
  EXPECT_EQ(bundle_.Check("4").code, 1);
  EXPECT_EQ(bundle_.Named(4, "compare_124M")["passed"], true);
  EXPECT_EQ(bundle_.Named(4, "compare_774M")["error"], "of_floor is to be 0.8");
}

TEST_F(GpuCheckOfTraining, HoldsStageThreeAgainstStageZeroOnSeveralGpus) {
  TrainThatTakes(0.09);
  bundle_.Check("4");
  EXPECT_EQ(bundle_.Named(4, "compare_stages")["left_out"], "one GPU");
  bundle_.Gpus(2);
  bundle_.Check("4");
  const Json stages = bundle_.Named(4, "compare_stages");
  EXPECT_EQ(stages["passed"], true) << stages;
  EXPECT_EQ(stages["result"]["of_stage_0"], 1.0) << stages;
  // Each rank has its own rows.
  EXPECT_THAT(Heard(), ContainsRegex("--backend=nccl --nproc=2 --stage=3 --dtype=bf16 .*--layers=12 .*--batch=32 "));
}

TEST_F(GpuCheckOfTraining, IsHeldAgainstPyTorchWhereItIsThere) {
  TrainThatTakes(0.09);
  PeerThatSays("echo \"$*\" >>" + bundle_.path() + "/heard; echo '{\"tokens_per_s\": 320000}'; exit 0");
  EXPECT_EQ(bundle_.Check("4").code, 1);
  const Json compared = bundle_.Named(4, "compare_torch_124M");
  EXPECT_EQ(compared["error"], "of_torch is to be 1.05");
  EXPECT_NEAR(compared["result"]["of_torch"].get<double>(), 1.024, 1e-9);
  EXPECT_THAT(Heard(), HasSubstr("--layers=36 --heads=20 --width=1280 --batch=32 --context=1024 --vocab=50304 --steps=20"));
}

TEST_F(GpuCheckOfTraining, SaysWhyPyTorchHasNotRun) {
  TrainThatTakes(0.09);
  PeerThatSays("echo '{\"left_out\": \"PyTorch sees no GPU\"}'; exit 3");
  EXPECT_EQ(bundle_.Check("4").code, 0);
  EXPECT_EQ(bundle_.Named(4, "torch_774M")["left_out"], "PyTorch sees no GPU");
  EXPECT_THAT(bundle_.End(4)["left_out"], ElementsAre("compare_stages", "torch_124M", "torch_774M"));
}

TEST_F(GpuCheckOfTraining, APeerThatBreaksFailsWithItsWords) {
  TrainThatTakes(0.09);
  PeerThatSays("echo 'OutOfMemoryError: CUDA out of memory' >&2; exit 1");
  EXPECT_EQ(bundle_.Check("4").code, 1);
  EXPECT_EQ(bundle_.Named(4, "torch_124M")["error"], "OutOfMemoryError: CUDA out of memory");
  EXPECT_THAT(bundle_.Named(4, "compare_torch_124M")["error"].get<std::string>(), StartsWith("of_torch is to be"));
}

}  // namespace
}  // namespace zeroshard::tools

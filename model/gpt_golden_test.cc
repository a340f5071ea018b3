#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "zeroshard/device/late/test_devices.h"
#include "zeroshard/model/hugging_face.h"
#include "zeroshard/model/safetensors.h"
#include "zeroshard/model/single_rank.h"

namespace zeroshard::model {
namespace {

using nlohmann::json;

constexpr double kBound = 4e-7;

json ReadJson(const std::string& path) { return json::parse(std::ifstream(path)); }

std::vector<int32_t> ReadTokens(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<int32_t> tokens;
  for (uint16_t token; file.read(reinterpret_cast<char*>(&token), sizeof token);) tokens.push_back(token);
  return tokens;
}

GptOptions OptionsOf(const json& config) {
  return {.layers = config["layers"],
          .heads = config["heads"],
          .width = config["width"],
          .context = config["context"],
          .vocab = config["vocab"],
          .tied = config["tied"],
          .batch = config["rows"],
          .frozen = config["frozen"]};
}

class GoldenTest : public testing::TestWithParam<const char*> {};

TEST_P(GoldenTest, FirstStep_HasPyTorchsLossAndGradientNorm) {
  const std::string folder = std::string("integration_tests/testdata/golden/") + GetParam();
  const json config = ReadJson(folder + "/config.json"), expected = ReadJson(folder + "/expected.json")[0];
  const std::vector<int32_t> tokens = ReadTokens(folder + "/tokens.bin");
  const GptOptions options = OptionsOf(config);
  const auto device = device::MakeTestDevice();
  auto rank = SingleRank::Create(*device, options);
  ASSERT_TRUE(rank.ok()) << rank.status();
  const auto file = Safetensors::Open(folder + "/init.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  for (const ParameterSpec& parameter : (*rank)->stored()) {
    std::vector<float> values(Elements(parameter));
    ASSERT_TRUE(ReadHuggingFace(*file, parameter, values).ok()) << parameter.name;
    (*rank)->Write(parameter.name, values);
  }

  const int64_t accumulation = config["accumulation"], rows = options.batch, context = options.context;
  const int64_t sequences = (static_cast<int64_t>(tokens.size()) - 1) / context, targets = accumulation * rows * context;
  double loss = 0;
  for (int64_t m = 0; m < accumulation; ++m) {
    std::vector<int32_t> x, y;
    for (int64_t r = 0; r < rows; ++r) {
      const auto start = tokens.begin() + (m * rows + r) % sequences * context;
      x.insert(x.end(), start, start + context);
      y.insert(y.end(), start + 1, start + context + 1);
    }
    const MicroBatch micro_batch{
        .inputs = x, .targets = y, .rows = rows, .gradient_scale = 1.0 / static_cast<double>(targets)};
    const auto mode = m == 0 ? device::WriteMode::kOverwrite : device::WriteMode::kAccumulate;
    ASSERT_TRUE((*rank)->Run(micro_batch, mode).ok());
    loss += (*rank)->LossSum() / static_cast<double>(targets);
  }
  double squares = 0;
  for (const ParameterSpec& parameter : (*rank)->stored()) {
    if (!parameter.trainable) continue;
    for (const float g : (*rank)->ReadGradient(parameter.name)) squares += static_cast<double>(g) * g;
  }
  const double want_loss = expected["loss"], want_norm = expected["grad_norm"];
  RecordProperty("relative_loss_error", std::to_string(std::abs(loss / want_loss - 1) * 1e9) + "e-9");
  RecordProperty("relative_norm_error", std::to_string(std::abs(std::sqrt(squares) / want_norm - 1) * 1e9) + "e-9");
  EXPECT_NEAR(loss / want_loss, 1, kBound);
  EXPECT_NEAR(std::sqrt(squares) / want_norm, 1, kBound);
}

INSTANTIATE_TEST_SUITE_P(Folders, GoldenTest,
                         testing::Values("adamw", "adamw_accumulation", "sgd_momentum", "untied_odd", "frozen"),
                         [](const auto& folder) { return std::string(folder.param); });

}  // namespace
}  // namespace zeroshard::model

#include "zeroshard/trainer/step_floor.h"

#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "zeroshard/device/cpu/cpu_device.h"
#include "zeroshard/device/products_alone.h"
#include "zeroshard/model/single_rank.h"
#include "zeroshard/trainer/testing/small_run.h"
#include "zeroshard/zero/testing/ranks.h"

namespace zeroshard::trainer {
namespace {

TEST(StepFloor, IsMeasuredOnEveryRankAndTakesNoMemoryAlong) {
  zero::testing::RunOnRanks({.world_size = 2}, [](comm::Communicator& communicator) {
    RunOptions options = testing::SmallRun(/*stage=*/2, /*rows=*/3);
    options.engine.accumulation = 2;
    const auto floor = MeasureStepFloor(communicator, options, /*steps=*/4);
    ASSERT_TRUE(floor.ok()) << floor.status();
    EXPECT_GT(floor->s_min, 0);
    EXPECT_LE(floor->s_min, floor->s_median);
    EXPECT_EQ(communicator.device().ledger().now(device::Use::kActivations), 0);
    const auto json = nlohmann::json::parse(FormatStepFloor(*floor, communicator), nullptr, false);
    EXPECT_EQ(json["tokens"], 3 * 16 * 2);
    EXPECT_EQ(json["world_size"], 2);
    EXPECT_EQ(json["floor_s_median"], floor->s_median);
  });
}

// What is measured: of a model's gradients those that are products, and no others.
TEST(StepFloor, RunsTheModelsProductsAndNothingElse) {
  const auto device = device::MakeCpuDevice();
  device::ProductsAlone products(*device);
  const RunOptions options = testing::SmallRun(/*stage=*/0, /*rows=*/2);
  const model::GptOptions model = Settle(options, /*world_size=*/1).value().model;
  EXPECT_EQ(model.batch, 2);
  const auto rank = model::SingleRank::Create(products, model);
  ASSERT_TRUE(rank.ok()) << rank.status();
  const auto read = [&](const model::ParameterSpec& parameter) {
    const auto* values = static_cast<const float*>(device->HostAddress((*rank)->Gradient(parameter.name)));
    return std::vector<float>(values, values + model::Elements(parameter));
  };
  std::vector<std::vector<float>> before;
  for (const model::ParameterSpec& parameter : (*rank)->stored()) before.push_back(read(parameter));
  const std::vector<int32_t> tokens(2 * 16);
  ASSERT_TRUE((*rank)->Run({.inputs = tokens, .targets = tokens, .rows = 2}, device::WriteMode::kOverwrite).ok());
  for (size_t i = 0; i < before.size(); ++i) {
    const model::ParameterSpec& parameter = (*rank)->stored()[i];
    const bool of_a_product = parameter.shape.size() == 2 && parameter.name != "transformer.wpe.weight";
    EXPECT_EQ(read(parameter) != before[i], of_a_product) << parameter.name;
  }
}

}  // namespace
}  // namespace zeroshard::trainer

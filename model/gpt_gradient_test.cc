#include <cmath>
#include <cstdint>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "zeroshard/device/cpu/cpu_device.h"
#include "zeroshard/device/late/test_devices.h"
#include "zeroshard/model/random_run.h"
#include "zeroshard/model/reference_gpt.h"

namespace zeroshard::model {

struct GradientCase {
  const char* name;
  GptOptions options;
  int64_t rows;
  int threads = 1;
  int directions = 3;  // tried for each parameter
};
std::ostream& operator<<(std::ostream& out, const GradientCase& c) { return out << c.name; }

namespace {

class GptGradientTest : public testing::TestWithParam<GradientCase> {};

// The derivative of the reference's loss along `direction`, by a central difference.
double Derivative(ReferenceGpt& reference, RandomRun& run, const std::string& name, const std::vector<double>& direction) {
  constexpr double kStep = 1e-5;
  ReferenceGpt::Values& values = reference.parameter(name);
  const ReferenceGpt::Values kept = values;
  double losses[2];
  for (int side = 0; side < 2; ++side) {
    for (size_t i = 0; i < values.size(); ++i) values[i] = kept[i] + (side == 0 ? kStep : -kStep) * direction[i];
    losses[side] = reference.LossSum(run.inputs(), run.targets(), run.rows());
  }
  values = kept;
  return (losses[0] - losses[1]) / (2 * kStep);
}

TEST_P(GptGradientTest, LossAndEveryGradient_AreThoseOfTheFormulas) {
  const GradientCase& c = GetParam();
  const auto device = c.threads == 1 ? device::MakeTestDevice() : device::MakeCpuDevice({.threads = c.threads});
  RandomRun run(*device, c.options, c.rows);
  run.targets()[0] = kNoTarget;
  ASSERT_TRUE(run.rank().Run(run.micro_batch(), device::WriteMode::kOverwrite).ok());
  ReferenceGpt reference(c.options, [&](const std::string& name) { return run.rank().ReadParameter(name); });
  const double loss = reference.LossSum(run.inputs(), run.targets(), run.rows());
  EXPECT_NEAR(run.rank().LossSum(), loss, 2e-6 * loss + 1e-6);
  EXPECT_EQ(run.rank().gpt().target_tokens(), c.rows * c.options.context - 1);

  std::mt19937 random(5);
  for (const ParameterSpec& parameter : run.rank().stored()) {
    const std::vector<float> gradient = run.rank().ReadGradient(parameter.name);
    double length = 0;
    for (const float g : gradient) length += static_cast<double>(g) * g;
    for (int k = 0; k < c.directions; ++k) {
      std::vector<double> direction(gradient.size());
      double along = 0;
      for (size_t i = 0; i < gradient.size(); ++i) {
        direction[i] = random() % 2 == 0 ? 1.0 : -1.0;
        along += gradient[i] * direction[i];
      }
      const double want = RandomRun::kScale * Derivative(reference, run, parameter.name, direction);
      EXPECT_NEAR(along, want, 2e-5 * std::sqrt(length) + 2e-6) << parameter.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, GptGradientTest,
    testing::Values(
        GradientCase{"Tied", {.layers = 2, .heads = 3, .width = 12, .context = 5, .vocab = 37, .tied = true, .batch = 2}, 2},
        GradientCase{
            "Untied", {.layers = 2, .heads = 3, .width = 12, .context = 5, .vocab = 37, .tied = false, .batch = 2}, 2},
        GradientCase{
            "OddHead", {.layers = 1, .heads = 1, .width = 13, .context = 17, .vocab = 31, .tied = true, .batch = 3}, 3},
        GradientCase{
            "ContextOfOne", {.layers = 1, .heads = 2, .width = 26, .context = 1, .vocab = 19, .tied = false, .batch = 4}, 4},
        GradientCase{
            "WidthOfOne", {.layers = 1, .heads = 1, .width = 1, .context = 3, .vocab = 2, .tied = false, .batch = 1}, 1},
        GradientCase{"ThreeAttentionBlocks",
                     {.layers = 1, .heads = 2, .width = 8, .context = 130, .vocab = 29, .tied = true, .batch = 1},
                     1},
        GradientCase{"TwoBlocksOfRowsAndColumns",
                     {.layers = 1, .heads = 1, .width = 6, .context = 100, .vocab = 600, .tied = false, .batch = 3},
                     3,
                     /*threads=*/1,
                     /*directions=*/1},
        GradientCase{
            "WideHead", {.layers = 1, .heads = 1, .width = 40, .context = 20, .vocab = 33, .tied = true, .batch = 2}, 2},
        GradientCase{
            "FewerRows", {.layers = 1, .heads = 2, .width = 12, .context = 7, .vocab = 23, .tied = true, .batch = 4}, 1},
        GradientCase{"TwoThreads",
                     {.layers = 1, .heads = 3, .width = 12, .context = 70, .vocab = 530, .tied = true, .batch = 4},
                     3,
                     /*threads=*/2,
                     /*directions=*/1}),
    [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace zeroshard::model

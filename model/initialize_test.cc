#include "zeroshard/model/initialize.h"

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "gtest/gtest.h"
#include "zeroshard/model/gpt_options.h"

namespace zeroshard::model {
namespace {

std::vector<float> All(const ParameterSpec& parameter, uint64_t seed, int64_t layers = 6) {
  std::vector<float> values(Elements(parameter));
  Initialize(parameter, layers, seed, 0, values);
  return values;
}

double Deviation(const std::vector<float>& values) {
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * value;
  return std::sqrt(squares / static_cast<double>(values.size()));
}

const ParameterSpec kMatrix{.name = "transformer.h.0.mlp.c_fc.weight", .shape = {300, 400}};
const ParameterSpec kResidual{.name = "transformer.h.0.attn.c_proj.weight", .shape = {300, 400}};

TEST(InitializeTest, Deviations_AreGpt2s) {
  EXPECT_NEAR(Deviation(All(kMatrix, 1)), 0.02, 2e-4);
  EXPECT_NEAR(Deviation(All(kResidual, 1, /*layers=*/8)), 0.02 / 4, 5e-5);
  double sum = 0, fourth = 0;
  for (const float value : All(kMatrix, 1)) {
    sum += value;
    fourth += std::pow(value / 0.02, 4);
  }
  EXPECT_NEAR(sum / 120000, 0, 3e-4);
  EXPECT_NEAR(fourth / 120000, 3, 0.1);
  for (const float one : All({.name = "transformer.ln_f.weight", .shape = {7}}, 1)) EXPECT_EQ(one, 1);
  for (const float zero : All({.name = "transformer.ln_f.bias", .shape = {7}}, 1)) EXPECT_EQ(zero, 0);
}

TEST(InitializeTest, APartInAnyOrder_IsThatPartOfTheWhole) {
  const std::vector<float> whole = All(kMatrix, 3);
  std::vector<float> parts(whole.size());
  Initialize(kMatrix, 6, 3, 777, std::span(parts).subspan(777));
  Initialize(kMatrix, 6, 3, 0, std::span(parts).first(777));
  EXPECT_EQ(parts, whole);
}

TEST(InitializeTest, SeedAndName_EachChangeTheValues) {
  EXPECT_EQ(All(kMatrix, 3), All(kMatrix, 3));
  EXPECT_NE(All(kMatrix, 3), All(kMatrix, 4));
  ParameterSpec other = kMatrix;
  other.name = "transformer.h.1.mlp.c_fc.weight";
  EXPECT_NE(All(kMatrix, 3), All(other, 3));
}

}  // namespace
}  // namespace zeroshard::model

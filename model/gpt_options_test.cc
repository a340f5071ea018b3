#include "zeroshard/model/gpt_options.h"

#include <set>
#include <string>

#include "gtest/gtest.h"

namespace zeroshard::model {
namespace {

TEST(GptOptionsTest, Units_OfGpt2Small_HaveItsParameters) {
  const GptOptions options{.layers = 12, .heads = 12, .width = 768, .context = 1024, .vocab = 50257};
  const auto units = GptUnits(options);
  ASSERT_TRUE(units.ok()) << units.status();
  EXPECT_EQ(units->size(), 14u);
  EXPECT_EQ(ParameterElements(*units), 124'439'808);
  EXPECT_EQ(units->front().parameters[0].name, "transformer.wte.weight");
  EXPECT_FALSE(units->front().backward_reads_parameters);
  EXPECT_EQ((*units)[3].name, "block.2");
  EXPECT_EQ((*units)[3].parameters[2].name, "transformer.h.2.attn.c_attn.weight");
  EXPECT_EQ((*units)[3].parameters[2].shape, (std::vector<int64_t>{3 * 768, 768}));
  EXPECT_EQ(units->back().parameters[2].tied_to, "transformer.wte.weight");
}

TEST(GptOptionsTest, Untied_HasAHeadOfItsOwn) {
  const auto units = GptUnits({.layers = 1, .heads = 1, .width = 4, .context = 2, .vocab = 5, .tied = false});
  EXPECT_EQ(units->back().parameters[2].name, "lm_head.weight");
  EXPECT_TRUE(units->back().parameters[2].tied_to.empty());
}

TEST(GptOptionsTest, DecayGroup_IsThatOfTwoDimensions) {
  const auto units = GptUnits({.layers = 2});
  for (const UnitSpec& unit : *units) {
    for (const ParameterSpec& parameter : unit.parameters) {
      EXPECT_EQ(parameter.group, parameter.shape.size() == 2 ? kDecayGroup : kNoDecayGroup) << parameter.name;
    }
  }
}

TEST(GptOptionsTest, Frozen_IsByPrefixAndFollowsTheTie) {
  GptOptions options{.layers = 2, .frozen = {"transformer.wte", "transformer.h.0.attn"}};
  const auto units = GptUnits(options);
  ASSERT_TRUE(units.ok());
  std::set<std::string> frozen;
  for (const UnitSpec& unit : *units) {
    for (const ParameterSpec& parameter : unit.parameters) {
      if (!parameter.trainable) frozen.insert(parameter.name);
    }
  }
  EXPECT_EQ(frozen, (std::set<std::string>{"transformer.wte.weight", "lm_head.weight", "transformer.h.0.attn.c_attn.weight",
                                           "transformer.h.0.attn.c_attn.bias", "transformer.h.0.attn.c_proj.weight",
                                           "transformer.h.0.attn.c_proj.bias"}));
  options.frozen = {"transformer.h.7"};
  EXPECT_NE(GptUnits(options).status().message().find("'transformer.h.7'"), absl::string_view::npos);
}

TEST(GptOptionsTest, CheckpointGroups_RecomputeAllButTheirLastUnitAndTheLastGroup) {
  const auto recomputed = [](int64_t layers, int64_t every) {
    std::string letters;
    const auto units = GptUnits({.layers = layers, .checkpoint_every = every});
    for (const UnitSpec& unit : *units) letters += unit.recomputed ? 'r' : '.';
    return letters;
  };
  EXPECT_EQ(recomputed(5, 0), ".......");
  EXPECT_EQ(recomputed(5, 1), ".......");
  EXPECT_EQ(recomputed(5, 2), ".r.r...");
  EXPECT_EQ(recomputed(5, 3), ".rr....");
  EXPECT_EQ(recomputed(5, 5), ".......");
  EXPECT_EQ(recomputed(5, 9), ".......");
}

TEST(GptOptionsTest, BadSizes_NameTheValueAndTheNearestChoice) {
  const auto message = [](const GptOptions& options) {
    const absl::Status status = ValidateGptOptions(options);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_NE(
      message({.heads = 5, .width = 384}).find("heads = 5 does not divide width = 384: the nearest that does is heads = 4"),
      std::string::npos);
  EXPECT_NE(message({.heads = 500, .width = 384}).find("nearest that does is heads = 384"), std::string::npos);
  EXPECT_NE(message({.layers = 0}).find("layers = 0"), std::string::npos);
  EXPECT_NE(message({.vocab = -3}).find("vocab = -3"), std::string::npos);
  EXPECT_NE(message({.dtype = device::DType::kInt32}).find("dtype = int32"), std::string::npos);
  EXPECT_NE(
      message({.dtype = device::DType::kBfloat16, .gradient_dtype = device::DType::kFloat16}).find("gradient_dtype = fp16"),
      std::string::npos);
  EXPECT_NE(message({.checkpoint_every = -1}).find("checkpoint_every = -1"), std::string::npos);
  EXPECT_NE(message({.checkpoints_on_host = true}).find("take checkpoint_every = 1"), std::string::npos);
  EXPECT_NE(message({.context = 1 << 20, .batch = 1 << 20}).find("take batch = 1024 or less"), std::string::npos);
}

}  // namespace
}  // namespace zeroshard::model

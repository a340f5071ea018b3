#include "zeroshard/tools/group_flags.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zeroshard::tools {
namespace {

using ::testing::HasSubstr;

struct Outcome {
  absl::Status status;
  optim::OptimizerOptions optimizer;
  std::map<std::string, model::ParameterSpec> parameters;
};

Outcome Apply(const std::vector<const char*>& line, optim::Kind kind = optim::Kind::kAdamW) {
  FlagSet set("train", "Trains.");
  GroupFlags groups;
  groups.Register(set);
  EXPECT_TRUE(set.Parse(static_cast<int>(line.size()), line.data()).ok());
  Outcome outcome;
  outcome.optimizer.kind = kind;
  outcome.optimizer.schedule.learning_rate = 0.1;
  outcome.optimizer.groups = {{.weight_decay = 0.1}, {.weight_decay = 0}};
  model::GptOptions model{.layers = 2, .heads = 1, .width = 8, .context = 8, .vocab = 16};
  outcome.status = groups.Apply(outcome.optimizer, model);
  const auto units = model::GptUnits(model);
  if (!units.ok()) return outcome;
  for (const model::UnitSpec& unit : *units) {
    for (const model::ParameterSpec& parameter : unit.parameters) outcome.parameters[parameter.name] = parameter;
  }
  return outcome;
}

TEST(GroupFlags, WithoutRulesMatricesDecayAndNormsAndBiasesDoNot) {
  const Outcome outcome = Apply({});
  EXPECT_EQ(outcome.optimizer.groups.size(), 2u);
  for (const auto& [name, parameter] : outcome.parameters) {
    EXPECT_EQ(parameter.group, parameter.shape.size() > 1 ? model::kDecayGroup : model::kNoDecayGroup) << name;
  }
}

TEST(GroupFlags, RulesSetRateDecayAndFrozenForWhatMatches) {
  const Outcome outcome = Apply(
      {"--group=*.attn.*:lr_scale=0.5", "--group=*.c_attn.weight:decay=0.3,lr=0.2", "--group=transformer.h.1.*:frozen"});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  const auto group = [&](const std::string& name) {
    return outcome.optimizer.groups[static_cast<size_t>(outcome.parameters.at(name).group)];
  };
  EXPECT_EQ(group("transformer.h.0.attn.c_attn.weight").weight_decay, 0.3);
  EXPECT_EQ(group("transformer.h.0.attn.c_attn.weight").learning_rate_scale, 2);
  EXPECT_EQ(group("transformer.h.0.attn.c_attn.bias").weight_decay, 0);
  EXPECT_EQ(group("transformer.h.0.attn.c_attn.bias").learning_rate_scale, 0.5);
  EXPECT_EQ(group("transformer.wpe.weight").learning_rate_scale, 1);
  EXPECT_FALSE(outcome.parameters.at("transformer.h.1.ln_1.weight").trainable);
  EXPECT_TRUE(outcome.parameters.at("transformer.h.0.ln_1.weight").trainable);
}

TEST(GroupFlags, MuonTakesTheMatricesBetweenEmbeddingAndHead) {
  const Outcome outcome = Apply({}, optim::Kind::kMuon);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  for (const auto& [name, parameter] : outcome.parameters) {
    const bool hidden = parameter.shape.size() == 2 && name.find(".h.") != std::string::npos;
    EXPECT_EQ(outcome.optimizer.groups[static_cast<size_t>(parameter.group)].orthogonal, hidden) << name;
  }
}

TEST(GroupFlags, ATiedParameterGoesByAnyOfItsNames) {
  const Outcome outcome = Apply({"--group=lm_head.weight:frozen"});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_FALSE(outcome.parameters.at("transformer.wte.weight").trainable);
  EXPECT_FALSE(outcome.parameters.at("lm_head.weight").trainable);
}

TEST(GroupFlags, BadRulesAreRefusedWithTheRemedy) {
  const std::vector<std::pair<const char*, std::string>> cases = {
      {"--group=*.wpx.weight:decay=0",
       "no parameter's name matches '*.wpx.weight'; the nearest is 'transformer.wpe.weight'"},
      {"--group=*.weight", "a rule is PATTERN:SETTING"},
      {"--group=*:deca=0", "did you mean 'decay'?"},
      {"--group=*:decay", "decay must be a number"},
      {"--group=*:lr=-1", "lr must be a number of at least 0"},
  };
  for (const auto& [flag, words] : cases) EXPECT_THAT(std::string(Apply({flag}).status.message()), HasSubstr(words));
}

}  // namespace
}  // namespace zeroshard::tools

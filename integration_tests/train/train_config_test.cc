// Runs that a configuration file asks for: DeepSpeed's, ours, and what flags make of them.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "zeroshard/integration_tests/train/tool_process.h"

namespace zeroshard::integration_tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

constexpr char kStage2[] = R"({
  "train_batch_size": 12,
  "train_micro_batch_size_per_gpu": 3,
  "gradient_clipping": 0.5,
  "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "betas": [0.9, 0.95], "weight_decay": 0.01}},
  "scheduler": {"type": "WarmupLR",
                "params": {"warmup_max_lr": 0.01, "warmup_num_steps": 4, "warmup_type": "linear"}},
  "zero_optimization": {"stage": 2, "reduce_bucket_size": 4096, "overlap_comm": true, "contiguous_gradients": true}
})";

std::vector<std::string> Small(const std::vector<std::string>& more) {
  static const std::string text = WriteFile("text.txt", SomeText(60'000));
  std::vector<std::string> flags = {"--data=" + text, "--layers=2", "--heads=2", "--width=32",  "--context=24",
                                    "--threads=1",    "--sample=0", "--steps=6", "--timeout=60"};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

struct ConfigRun {
  ToolResult result;
  Json summary;
  std::vector<Json> metrics;
};

ConfigRun RunWith(std::vector<std::string> more) {
  const std::string summary = ::testing::TempDir() + "/summary.json", metrics = ::testing::TempDir() + "/metrics.jsonl";
  more.insert(more.end(), {"--summary=" + summary, "--metrics=" + metrics});
  ConfigRun run{.result = RunTool("tools/train", Small(more)), .summary = {}, .metrics = {}};
  if (run.result.code != 0) return run;
  run.summary = Json::parse(ReadFile(summary), nullptr, false);
  const std::string lines = ReadFile(metrics);
  for (size_t at = 0; at < lines.size(); at = lines.find('\n', at) + 1) {
    run.metrics.push_back(Json::parse(lines.substr(at, lines.find('\n', at) - at), nullptr, false));
  }
  return run;
}

TEST(TrainConfig, ADeepSpeedFileRunsAsItStands) {
  const ConfigRun run = RunWith({"--config=" + WriteFile("stage2.json", kStage2)});
  ASSERT_EQ(run.result.code, 0) << run.result.errors;
  EXPECT_EQ(run.summary["stage"], 2);
  ASSERT_EQ(run.metrics.size(), 6u);
  // WarmupLR: the rate is set after each step, and rises by a quarter of 0.01.
  const std::vector<double> rates = {0, 0, 0.0025, 0.005, 0.0075, 0.01};
  for (size_t s = 0; s < rates.size(); ++s) EXPECT_NEAR(run.metrics[s]["lr"].get<double>(), rates[s], 1e-12);
  EXPECT_EQ(run.metrics[0]["tokens"], 12 * 24);
  EXPECT_LT(run.metrics[0]["clip_factor"], 1);
  EXPECT_THAT(run.result.errors, AllOf(HasSubstr("contiguous_gradients changes nothing here"), HasSubstr("stage2.json:8:"),
                                       HasSubstr("12 rows a step = 3 x 2 micro-batches x 2 ranks")));
}

TEST(TrainConfig, TheRecordOfARunGivesTheSameBits) {
  const std::string record = ::testing::TempDir() + "/record.json";
  const ConfigRun first = RunWith({"--config=" + WriteFile("stage2.json", kStage2), "--save_config=" + record});
  ASSERT_EQ(first.result.code, 0) << first.result.errors;
  const ConfigRun again = RunWith({"--config=" + record});
  ASSERT_EQ(again.result.code, 0) << again.result.errors;
  EXPECT_EQ(first.summary["bits"], again.summary["bits"]);
  EXPECT_EQ(first.summary["config"], again.summary["config"]);
  const ConfigRun other = RunWith({"--config=" + record, "--lr=0.02"});
  EXPECT_NE(first.summary["bits"], other.summary["bits"]);
}

TEST(TrainConfig, AFlagReplacesItsKeyAndTheTrainBatchGivesWay) {
  const std::string config = WriteFile("three.json", R"({"train_batch_size": 12, "gradient_accumulation_steps": 2,
                                                         "zero_optimization": {"stage": 1}})");
  const ConfigRun run = RunWith({"--config=" + config, "--batch=1", "--stage=3"});
  ASSERT_EQ(run.result.code, 0) << run.result.errors;
  EXPECT_EQ(run.summary["stage"], 3);
  EXPECT_EQ(run.metrics[0]["tokens"], 4 * 24);
  EXPECT_THAT(run.result.errors,
              HasSubstr("train_batch_size = 12 gives way to --batch=1: micro-batch 1 x accumulation 2 x 2 "
                        "ranks = 4 rows a step"));
}

TEST(TrainConfig, OurOwnTextAndParameterGroups) {
  const std::string config = WriteFile("run.textproto",
                                       "stage: 1  partition: \"tensor\"\ngroup: \"*.wpe.weight:frozen\"\n"
                                       "group: \"transformer.h.0.*:lr_scale=0.5\"\n");
  EXPECT_EQ(RunWith({"--config=" + config}).summary["partition"], "tensor");
  const ToolResult list = RunTool("tools/train", Small({"--config=" + config, "--list_parameters"}));
  EXPECT_THAT(list.output, ::testing::ContainsRegex("wpe.weight +24 x 32 +768   not trained"));
  EXPECT_THAT(list.output, ::testing::ContainsRegex("h.0.ln_1.bias +32 +32 +[0-9]  0.5 +0\n"));
}

TEST(TrainConfig, WhatIsWrongEndsTheRunBeforeRanksStart) {
  constexpr char kOffloadInStage1[] = "{\"zero_optimization\": {\"stage\": 1,\n \"offload_param\": {\"device\": \"cpu\"}}}";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{\n \"train_batch_sise\": 4}", "wrong.json:2:2: train_batch_sise is no key of DeepSpeed"},
      {"{\"train_batch_size\": 10, \"train_micro_batch_size_per_gpu\": 4}",
       "10 is no multiple of micro-batch 4 x 2 ranks = 8; the nearest that are: 8 (accumulation 1) and 16 (accumulation 2)"},
      {"{\"fp16\": {\"enabled\": true, \"loss_scale\": 1e-9}}", "wrong.json:1:42: fp16.loss_scale = 1e-9"},
      {"{\"zeroshard\": {\"group\": [\"*.wpx.weight:frozen\"]}}", "the nearest is 'transformer.wpe.weight'"},
      {"{", "wrong.json:1:"},
      {kOffloadInStage1, "wrong.json:1:33: zero_optimization.stage = 1; "},
      {kOffloadInStage1, "wrong.json:2:30: zero_optimization.offload_param.device = cpu]"},
      {"{\"zero_optimization\": {\"stage\": 2, \"offload_optimizer\": {\"device\": \"nvme\",\n \"nvme_path\": "
       "\"/nowhere\"}}}",
       "wrong.json:2:15: zero_optimization.offload_optimizer.nvme_path = /nowhere]"},
  };
  for (const auto& [json, words] : cases) {
    const ToolResult result = RunTool("tools/train", Small({"--config=" + WriteFile("wrong.json", json)}));
    EXPECT_EQ(result.code, 2) << json;
    EXPECT_THAT(LastLine(result.errors), HasSubstr(words));
    EXPECT_THAT(result.errors, Not(HasSubstr("step 1/")));
  }
  EXPECT_EQ(RunTool("tools/train", Small({"--config=/nonexistent.json"})).code, 2);
  EXPECT_EQ(RunTool("tools/train", Small({"--config=/"})).code, 2);
}

}  // namespace
}  // namespace zeroshard::integration_tests

// DeepSpeed's keys and our own, as the options that they come to.
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "zeroshard/tools/config/batch_arithmetic.h"
#include "zeroshard/tools/config/config_file.h"
#include "zeroshard/tools/config/deepspeed_keys.h"
#include "zeroshard/tools/config/train_config.pb.h"
#include "zeroshard/tools/engine_flags.h"
#include "zeroshard/tools/optimizer_flags.h"
#include "zeroshard/tools/precision_flags.h"
#include "zeroshard/tools/train_flags.h"

namespace zeroshard::tools {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// The flags of a run that a configuration can set.
struct Flags {
  explicit Flags(const std::vector<const char*>& line = {}) {
    engine.Register(set);
    precision.Register(set);
    optimizer.Register(set);
    for (auto& [name, value] : numbers) {
      const std::string made = name == "train_batch" ? "made of others" : "";
      set.Integer(name, &value, {.least = 0}, {.group = "STEPS", .text = "", .example = "", .default_text = made});
    }
    set.Boolean("wall_clock_breakdown", &breakdown, {.group = "STEPS", .text = "", .example = ""});
    set.Boolean("activation_checkpoints_on_host", &on_host, {.group = "STEPS", .text = "", .example = ""});
    EXPECT_TRUE(set.Parse(static_cast<int>(line.size()), line.data()).ok());
  }
  absl::StatusOr<std::vector<std::string>> Apply(const std::string& text, const std::string& name = "ds.json") {
    return ApplyConfigText(name, text, set);
  }
  std::string Error(const std::string& text, const std::string& name = "ds.json") {
    return std::string(Apply(text, name).status().message());
  }
  optim::OptimizerOptions Optimizer() {
    const auto options = optimizer.Options(set, 1000);
    EXPECT_TRUE(options.ok()) << options.status();
    return options.value_or(optim::OptimizerOptions());
  }

  FlagSet set{"train", "Trains."};
  EngineFlags engine;
  PrecisionFlags precision;
  OptimizerFlags optimizer;
  std::vector<std::pair<std::string, int64_t>> numbers = {
      {"layers", 4},      {"width", 32},   {"batch", 8},           {"accumulation", 1},
      {"train_batch", 0}, {"steps", 1000}, {"steps_per_print", 0}, {"activation_checkpoint_every", 0}};
  bool breakdown = false, on_host = false;
};

// What one setting of a file makes of one flag.
struct Case {
  std::string json;
  std::string flag;
  std::string value;
};

TEST(DeepSpeedConfig, EachKeyShowsInItsFlag) {
  const auto zero = [](const std::string& inner) { return "{\"zero_optimization\": {" + inner + "}}"; };
  const auto fp16 = [](const std::string& inner) { return "{\"fp16\": {\"enabled\": true, " + inner + "}}"; };
  const std::vector<Case> cases = {
      {"{\"train_batch_size\": 64}", "train_batch", "64"},
      {"{\"train_micro_batch_size_per_gpu\": 6}", "batch", "6"},
      {"{\"gradient_accumulation_steps\": 3}", "accumulation", "3"},
      {"{\"gradient_clipping\": 0.5}", "clip", "0.5"},
      {"{\"prescale_gradients\": true}", "prescale_gradients", "true"},
      {"{\"gradient_predivide_factor\": 4.0}", "gradient_predivide_factor", "4"},
      {"{\"communication_data_type\": \"BF16\"}", "communication_dtype", "bf16"},
      {"{\"steps_per_print\": 10}", "steps_per_print", "10"},
      {"{\"wall_clock_breakdown\": true}", "wall_clock_breakdown", "true"},
      {"{\"data_types\": {\"grad_accum_dtype\": \"fp32\"}}", "gradient_dtype", "fp32"},
      {zero("\"stage\": 3"), "stage", "3"},
      {zero("\"stage\": 2, \"reduce_bucket_size\": 5e8"), "reduce_bucket_size", "500000000"},
      {zero("\"allgather_bucket_size\": 2e8"), "allgather_bucket_size", "200000000"},
      {zero("\"allgather_partitions\": false"), "allgather_partitions", "false"},
      {zero("\"reduce_scatter\": false"), "reduce_scatter", "false"},
      {zero("\"stage\": 3, \"overlap_comm\": false"), "overlap", "false"},
      {zero("\"stage\": 3"), "overlap", "true"},
      {zero("\"stage\": 2"), "overlap", "false"},
      {zero("\"round_robin_gradients\": true"), "round_robin_gradients", "true"},
      {zero("\"sub_group_size\": 1e9"), "sub_group_size", "1000000000"},
      {zero("\"stage3_prefetch_bucket_size\": 5e7"), "prefetch_bucket_size", "50000000"},
      {zero("\"stage3_param_persistence_threshold\": 1e5"), "persistence_threshold", "100000"},
      {zero("\"stage3_max_live_parameters\": 1e9"), "max_live_parameters", "1000000000"},
      {zero("\"stage3_max_reuse_distance\": 7"), "max_reuse_distance", "7"},
      {zero("\"offload_param\": {\"device\": \"cpu\"}"), "offload_parameters", "cpu"},
      {zero("\"offload_param\": {\"device\": \"nvme\", \"nvme_path\": \"/n\"}"), "offload_parameters_folder", "/n"},
      {zero("\"offload_optimizer\": {\"device\": \"nvme\"}"), "offload_optimizer", "nvme"},
      {zero("\"offload_optimizer\": {\"nvme_path\": \"/n\"}"), "offload_optimizer_folder", "/n"},
      {zero("\"offload_optimizer\": {\"ratio\": 0.25}"), "offload_ratio", "0.25"},
      {"{\"fp16\": {\"enabled\": true}}", "dtype", "fp16"},
      {"{\"bf16\": {\"enabled\": true}}", "dtype", "bf16"},
      {"{\"fp16\": {\"enabled\": false}, \"bf16\": {\"enabled\": \"auto\"}}", "dtype", "fp32"},
      {fp16("\"loss_scale\": 128"), "loss_scale", "128"},
      {fp16("\"initial_scale_power\": 12"), "initial_scale_power", "12"},
      {fp16("\"loss_scale_window\": 500"), "loss_scale_window", "500"},
      {fp16("\"hysteresis\": 4"), "hysteresis", "4"},
      {fp16("\"consecutive_hysteresis\": true"), "consecutive_hysteresis", "true"},
      {fp16("\"min_loss_scale\": 2"), "min_loss_scale", "2"},
      {"{\"activation_checkpointing\": {\"number_checkpoints\": 2}}", "activation_checkpoint_every", "2"},
      {"{\"activation_checkpointing\": {\"cpu_checkpointing\": true}}", "activation_checkpoints_on_host", "true"},
      {"{\"activation_checkpointing\": {\"cpu_checkpointing\": true}}", "activation_checkpoint_every", "1"},
      {"{}", "stage", "0"},
      {"{}", "clip", "0"},
  };
  for (const Case& c : cases) {
    Flags flags;
    const auto notes = flags.Apply(c.json);
    ASSERT_TRUE(notes.ok()) << c.json << ": " << notes.status();
    EXPECT_EQ(flags.set.Value(c.flag), c.value) << c.json;
  }
}

TEST(DeepSpeedConfig, TheStage3OffloadFileOfADeepSpeedUserIsReadAsItStands) {
  std::ifstream file("tools/config/testdata/stage3_fp16_offload.json");
  std::stringstream text;
  text << file.rdbuf();
  Flags flags;
  const auto notes = flags.Apply(text.str());
  ASSERT_TRUE(notes.ok()) << notes.status();
  EXPECT_THAT(*notes, ElementsAre(HasSubstr("offload_param.pin_memory"), HasSubstr("offload_optimizer.pin_memory"),
                                  HasSubstr("contiguous_gradients")));
  const zero::EngineOptions engine = flags.engine.Options();
  EXPECT_EQ(engine.stage, 3);
  EXPECT_EQ(engine.offload_parameters.target, zero::OffloadTarget::kHost);
  EXPECT_EQ(engine.offload_optimizer.target, zero::OffloadTarget::kHost);
  EXPECT_TRUE(engine.overlap);
  EXPECT_EQ(engine.sub_group_size, 1'000'000'000);
  EXPECT_EQ(engine.reduce_bucket_size, 500'000'000);
  EXPECT_EQ(engine.prefetch_bucket_size, 500'000'000);
  EXPECT_EQ(engine.persistence_threshold, 100'000);
  zero::EngineOptions precise = engine;
  model::GptOptions model;
  ASSERT_TRUE(flags.precision.Apply(flags.set, precise, model).ok());
  EXPECT_EQ(precise.dtype, device::DType::kFloat16);
  EXPECT_EQ(precise.optimizer.loss_scale.kind, device::LossScaleKind::kDynamic);
  EXPECT_EQ(precise.optimizer.loss_scale.initial_power, 16);
  const auto batch = PlanBatch(BatchRequestOf(flags.set), 2);
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(batch->batch, 32);
  EXPECT_EQ(batch->accumulation, 4);
}

TEST(DeepSpeedConfig, OptimizersComeWithDeepSpeedsDefaults) {
  Flags adam;
  ASSERT_TRUE(
      adam.Apply(R"({"optimizer": {"type": "Adam", "params": {"lr": 3e-4, "betas": [0.8, 0.99], "eps": 1e-6}}})").ok());
  EXPECT_EQ(adam.Optimizer().kind, optim::Kind::kAdamW);
  EXPECT_EQ(adam.Optimizer().beta1, 0.8);
  EXPECT_EQ(adam.Optimizer().beta2, 0.99);
  EXPECT_EQ(adam.Optimizer().eps, 1e-6);
  EXPECT_EQ(adam.Optimizer().groups[0].weight_decay, 0);
  EXPECT_EQ(adam.Optimizer().schedule.learning_rate, 3e-4);
  Flags coupled;
  ASSERT_TRUE(
      coupled.Apply(R"({"optimizer": {"type": "adam", "params": {"adam_w_mode": false, "weight_decay": 0.01}}})").ok());
  EXPECT_EQ(coupled.Optimizer().kind, optim::Kind::kAdam);
  EXPECT_EQ(coupled.Optimizer().beta2, 0.999);
  EXPECT_EQ(coupled.Optimizer().groups[0].weight_decay, 0.01);
  EXPECT_EQ(coupled.Optimizer().schedule.learning_rate, 1e-3);
  Flags sgd;
  ASSERT_TRUE(sgd.Apply(R"({"optimizer": {"type": "SGD", "params": {"momentum": 0.9, "nesterov": true}}})").ok());
  EXPECT_EQ(sgd.Optimizer().kind, optim::Kind::kSgd);
  EXPECT_EQ(sgd.Optimizer().momentum, 0.9);
  EXPECT_TRUE(sgd.Optimizer().nesterov);
}

// Each of its parameters, and what they replace: "lr" is for all, "muon_lr" for matrices, "adam_lr" for what AdamW takes.
TEST(DeepSpeedConfig, MuonsParametersShowInItsOptions) {
  const auto options_of = [](const std::string& parameters) {
    Flags flags;
    const auto notes = flags.Apply(R"({"optimizer": {"type": "Muon", "params": {)" + parameters + "}}}");
    EXPECT_TRUE(notes.ok()) << notes.status();
    return flags.Optimizer();
  };
  const auto rates = [&](const std::string& parameters) {
    const optim::OptimizerOptions options = options_of(parameters);
    const double muon = options.schedule.learning_rate;
    return std::pair(muon, muon * options.groups[0].learning_rate_scale);
  };
  const optim::OptimizerOptions absent = options_of("");
  EXPECT_EQ(absent.kind, optim::Kind::kMuon);
  EXPECT_EQ(absent.momentum, 0.95);
  EXPECT_TRUE(absent.nesterov);
  EXPECT_EQ(absent.beta1, 0.9);
  EXPECT_EQ(absent.beta2, 0.95);
  EXPECT_EQ(absent.eps, 1e-10);
  EXPECT_EQ(absent.groups[0].weight_decay, 0);
  EXPECT_EQ(rates(""), std::pair(0.02, 3e-4));
  EXPECT_EQ(rates(R"("lr": 0.5)"), std::pair(0.5, 0.5));
  EXPECT_EQ(rates(R"("muon_lr": 0.5)"), std::pair(0.5, 3e-4));
  EXPECT_EQ(rates(R"("lr": 0.5, "muon_lr": 0.25)"), std::pair(0.25, 0.5));
  EXPECT_EQ(rates(R"("lr": 0.5, "adam_lr": 0.25)"), std::pair(0.5, 0.25));
  EXPECT_EQ(rates(R"("adam_lr": 0.01)"), std::pair(0.02, 0.01));
  EXPECT_EQ(options_of(R"("momentum": 0.8)").momentum, 0.8);
  EXPECT_EQ(options_of(R"("betas": [0.8, 0.99])").beta1, 0.8);
  EXPECT_EQ(options_of(R"("betas": [0.8, 0.99])").beta2, 0.99);
  EXPECT_EQ(options_of(R"("eps": 1e-6)").eps, 1e-6);
  EXPECT_EQ(options_of(R"("weight_decay": 0.1)").groups[0].weight_decay, 0.1);
}

TEST(DeepSpeedConfig, MuonsRatesGiveWayToTheCommandLineAndToASchedulersOwn) {
  Flags given({"--lr=0.25"});
  ASSERT_TRUE(given.Apply(R"({"optimizer": {"type": "Muon", "params": {"lr": 0.5}}})").ok());
  EXPECT_EQ(given.Optimizer().schedule.learning_rate, 0.25);
  EXPECT_EQ(given.Optimizer().groups[0].learning_rate_scale, 1);

  Flags warmup;
  const auto notes = warmup.Apply(R"({"optimizer": {"type": "Muon", "params": {"muon_lr": 0.5, "adam_lr": 0.1}},
      "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 0.25}}})");
  ASSERT_TRUE(notes.ok()) << notes.status();
  EXPECT_THAT(*notes, ElementsAre(HasSubstr("optimizer.params.adam_lr gives way: WarmupLR has one rate for all"),
                                  HasSubstr("optimizer.params.muon_lr gives way to the scheduler's")));
  EXPECT_EQ(warmup.Optimizer().schedule.learning_rate, 0.25);
  EXPECT_EQ(warmup.Optimizer().groups[0].learning_rate_scale, 1);

  Flags cosine;
  ASSERT_TRUE(cosine
                  .Apply(R"({"optimizer": {"type": "Muon", "params": {"muon_lr": 0.5, "adam_lr": 0.125}},
      "scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 5000}}})")
                  .ok());
  EXPECT_EQ(cosine.Optimizer().schedule.learning_rate, 0.5);
  EXPECT_EQ(cosine.Optimizer().groups[0].learning_rate_scale, 0.25);
}

TEST(DeepSpeedConfig, MuonTakesAPartitionOfWholeMatrices) {
  const std::string json = R"({"optimizer": {"type": "Muon", "params": {"ns_method": "gram", "ns_steps": 5}},
                               "zero_optimization": {"stage": 2}})";
  Flags absent;
  const auto notes = absent.Apply(json);
  ASSERT_TRUE(notes.ok()) << notes.status();
  EXPECT_THAT(*notes, ElementsAre(HasSubstr("optimizer.params.ns_method changes nothing here"),
                                  HasSubstr("optimizer Muon needs matrices whole: partition is tensor")));
  EXPECT_EQ(absent.engine.Options().partition, zero::Partition::kTensor);
  Flags given({"--partition=flat"});
  ASSERT_TRUE(given.Apply(json).ok());
  EXPECT_EQ(given.engine.Options().partition, zero::Partition::kFlat);
}

TEST(DeepSpeedConfig, SchedulersComeWithDeepSpeedsDefaultsAndTheirRateReplacesTheOptimizers) {
  Flags flags;
  const auto notes = flags.Apply(R"({"optimizer": {"type": "AdamW", "params": {"lr": 1}},
      "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 2, "warmup_min_lr": 0.5, "warmup_type": "linear"}}})");
  ASSERT_TRUE(notes.ok()) << notes.status();
  EXPECT_THAT(*notes, ElementsAre(HasSubstr("optimizer.params.lr gives way to the scheduler's")));
  const optim::Schedule warmup = flags.Optimizer().schedule;
  EXPECT_EQ(warmup.kind, optim::ScheduleKind::kWarmup);
  EXPECT_EQ(warmup.learning_rate, 2);
  EXPECT_EQ(warmup.warmup_from, 0.5);
  EXPECT_EQ(warmup.warmup_steps, 1000);
  EXPECT_EQ(warmup.warmup_shape, optim::WarmupShape::kLinear);

  Flags cosine;
  ASSERT_TRUE(cosine
                  .Apply(R"({"scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 300,
      "warmup_num_steps": 10, "warmup_min_ratio": 0.1, "cos_min_ratio": 0.01}}})")
                  .ok());
  EXPECT_EQ(cosine.Optimizer().schedule.total_steps, 300);
  EXPECT_DOUBLE_EQ(cosine.Optimizer().schedule.warmup_from, 2e-4);
  EXPECT_DOUBLE_EQ(cosine.Optimizer().schedule.min_learning_rate, 2e-5);

  Flags cycle;
  ASSERT_TRUE(cycle
                  .Apply(R"({"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.1, "cycle_max_lr": 1,
      "cycle_first_step_size": 7, "decay_step_size": 3, "decay_lr_rate": 0.5, "cycle_max_mom": 0.95,
      "cycle_min_mom": 0.75, "cycle_first_stair_count": 4, "cycle_second_stair_count": 5}}})")
                  .ok());
  const optim::Schedule one = cycle.Optimizer().schedule;
  EXPECT_EQ(one.min_learning_rate, 0.1);
  EXPECT_EQ(one.cycle.first_steps, 7);
  EXPECT_EQ(one.cycle.second_steps, 7);
  EXPECT_EQ(one.cycle.decay_rate, 0.5);
  EXPECT_TRUE(one.cycle.cycles_beta1);
  EXPECT_EQ(one.cycle.max_beta1, 0.95);
  EXPECT_EQ(one.cycle.min_beta1, 0.75);
  EXPECT_EQ(one.cycle.first_stairs, 4);
  EXPECT_EQ(one.cycle.second_stairs, 5);
  EXPECT_EQ(one.cycle.decay_steps, 3);

  Flags still;
  ASSERT_TRUE(still
                  .Apply(R"({"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.1, "cycle_max_lr": 1,
      "cycle_first_step_size": 7, "cycle_second_step_size": 9, "cycle_momentum": false}}})")
                  .ok());
  EXPECT_EQ(still.Optimizer().schedule.cycle.second_steps, 9);
  EXPECT_FALSE(still.Optimizer().schedule.cycle.cycles_beta1);

  Flags decay;
  ASSERT_TRUE(decay
                  .Apply(R"({"scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 50, "warmup_num_steps": 5,
      "warmup_max_lr": 0.5}}})")
                  .ok());
  EXPECT_EQ(decay.Optimizer().schedule.total_steps, 50);
  EXPECT_EQ(decay.Optimizer().schedule.warmup_steps, 5);
}

TEST(DeepSpeedConfig, AutoIsWhatTheCommandLineSaysOrFollowsTheWidth) {
  Flags flags({"--lr=0.25", "--batch=3", "--dtype=bf16", "--stage=3"});
  ASSERT_TRUE(
      flags
          .Apply(R"({"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"},
      "gradient_accumulation_steps": "auto", "gradient_clipping": "auto",
      "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}},
      "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_min_lr": "auto", "warmup_max_lr": "auto",
                    "warmup_num_steps": "auto", "total_num_steps": "auto"}},
      "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto",
                            "stage3_param_persistence_threshold": "auto"}})")
          .ok());
  EXPECT_EQ(flags.set.Value("clip"), "1");
  EXPECT_EQ(flags.set.Value("dtype"), "bf16");
  EXPECT_EQ(flags.Optimizer().schedule.learning_rate, 0.25);
  EXPECT_EQ(flags.Optimizer().schedule.warmup_steps, 40);
  EXPECT_EQ(flags.Optimizer().schedule.total_steps, 1000);
  EXPECT_EQ(flags.Optimizer().beta2, 0.95);
  EXPECT_EQ(PlanBatch(BatchRequestOf(flags.set), 2)->train_batch, 6);
  EXPECT_EQ(flags.set.Value("reduce_bucket_size"), "1024");
  EXPECT_EQ(flags.set.Value("prefetch_bucket_size"), "921");
  EXPECT_EQ(flags.set.Value("persistence_threshold"), "320");
}

TEST(DeepSpeedConfig, AFlagReplacesItsKey) {
  Flags flags({"--stage=1", "--dtype=fp32", "--batch=4"});
  ASSERT_TRUE(flags
                  .Apply(R"({"train_batch_size": 256, "gradient_accumulation_steps": 4, "fp16": {"enabled": true},
                              "zero_optimization": {"stage": 3}})")
                  .ok());
  EXPECT_EQ(flags.set.Value("stage"), "1");
  EXPECT_EQ(flags.set.Value("overlap"), "false");
  EXPECT_EQ(flags.set.Value("dtype"), "fp32");
  const auto batch = PlanBatch(BatchRequestOf(flags.set), 2);
  ASSERT_TRUE(batch.ok());
  EXPECT_EQ(batch->train_batch, 32);
  EXPECT_EQ(batch->note,
            "ds.json:1:22: train_batch_size = 256 gives way to --batch=4: micro-batch 4 x accumulation 4 x 2 ranks = 32 "
            "rows a step");
}

TEST(DeepSpeedConfig, WhatIsWrongIsNamedWithItsLine) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{\n  \"train_batch_sise\": 4}",
       "ds.json:2:3: train_batch_sise is no key of DeepSpeed; did you mean \"train_batch_size\"?"},
      {"{\"stage\": 3}", "stage is no key of DeepSpeed; it is a key of zero_optimization"},
      {"{\"zero_optimization\": {\"stage\": 4}}", "ds.json:1:33: zero_optimization.stage = 4: must be between 0 and 3"},
      {"{\"zero_optimization\": {\"stage\": \"3\"}}", "is a text, \"3\"; it must be a number"},
      {"{\"zero_optimization\": true}", "zero_optimization is a boolean; it must be an object"},
      {"{\"zero_optimization\": {\"reduce_bucket_size\": 0}}", "must be at least 1"},
      {"{\"zero_optimization\": {\"reduce_bucket_size\": 1.5}}", "is no whole number"},
      {"{\"zero_optimization\": {\"stage3_param_persistence_threshold\": -1}}", "must be at least 0"},
      {"{\"zero_optimization\": {\"offload_param\": {\"device\": \"cup\"}}}", "did you mean cpu?"},
      {"{\"zero_optimization\": {\"zero_quantized_weights\": true}}",
       "is DeepSpeed's and not honoured here: nothing is quantised"},
      {"{\"activation_checkpointing\": {\"partition_activations\": true}}", "nothing is replicated here"},
      {"{\"wandb\": {\"enabled\": true}}", "wandb is DeepSpeed's and not honoured here"},
      {"{\"fp16\": {\"enabled\": true}, \"bf16\": {\"enabled\": true}}",
       "ds.json:1:49: bf16.enabled is true, and fp16.enabled is too"},
      {"{\"fp16\": {\"enabled\": \"yes\"}}", "it must be true, false or \"auto\""},
      {"{\"fp16\": {\"auto_cast\": true}}", "fp16.auto_cast is DeepSpeed's"},
      {"{\"optimizer\": {\"type\": \"Lamb\"}}", "is Lamb, which DeepSpeed has and this program does not"},
      {"{\"optimizer\": {\"type\": \"AdamX\"}}", "did you mean Adam"},
      {"{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"momentum\": 0.9}}}", "is no parameter of Adam"},
      {"{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"betas\": [0.9]}}}", "a list of two numbers"},
      {"{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"muon_lr\": 1}}}", "muon_lr is no parameter of Adam"},
      {"{\"optimizer\": {\"type\": \"Muon\", \"params\": {\"nesterov\": true}}}", "nesterov is no parameter of Muon"},
      {"{\"optimizer\": {\"type\": \"Muon\", \"params\": {\"moun_lr\": 1}}}", "did you mean \"muon_lr\"?"},
      {"{\"optimizer\": {\"type\": \"Muon\", \"params\": {\"ns_steps\": 6}}}", "five steps of Newton-Schulz"},
      {"{\"optimizer\": {\"type\": \"Muon\", \"params\": {\"ns_method\": \"svd\"}}}", "\"gram\" or \"standard\""},
      {"{\"optimizer\": {\"type\": \"Muon\", \"params\": {\"per_head_muon\": true}}}", "Muon takes whole matrices here"},
      {"{\"optimizer\": {\"params\": {}}}", "optimizer.type must be one of Adam"},
      {"{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"total_num_steps\": 9}}}", "is no parameter of WarmupLR"},
      {"{\"scheduler\": {\"type\": \"OneCycle\", \"params\": {\"cycle_min_lr\": 0}}}", "cycle_max_lr is missing"},
      {"{\"scheduler\": {\"type\": \"LRRangeTest\"}}", "LRRangeTest, which DeepSpeed has"},
      {"{\"gradient_clipping\": 1,\n \"gradient_clipping\": 2}", "ds.json:2:2: the key \"gradient_clipping\" occurs twice"},
      {"{\"zeroshard\": {\"stage\": 2},\n \"zero_optimization\": {\"stage\": 3}}", "the same is set by ds.json:1:25"},
      {"[1]", "a configuration is an object"},
  };
  for (const auto& [json, words] : cases) {
    Flags flags;
    EXPECT_THAT(flags.Error(json), AllOf(StartsWith("ds.json:"), HasSubstr(words))) << json;
  }
}

TEST(DeepSpeedConfig, AVanishingStaticLossScaleIsRefused) {
  Flags flags;
  ASSERT_TRUE(flags.Apply("{\"fp16\": {\"enabled\": true,\n \"loss_scale\": 1e-7}}").ok());
  zero::EngineOptions engine;
  model::GptOptions model;
  EXPECT_THAT(std::string(flags.precision.Apply(flags.set, engine, model).message()),
              AllOf(StartsWith("ds.json:2:16: fp16.loss_scale = 1e-7"), HasSubstr("vanish")));
}

TEST(DeepSpeedConfig, WhatIsTurnedOffIsNotRefused) {
  Flags flags;
  const auto notes = flags.Apply(R"({"flops_profiler": {"enabled": false, "profile_step": 1}, "wandb": null,
      "zero_optimization": {"zero_quantized_weights": false, "zero_hpz_partition_size": 1.0}, "dump_state": false})");
  ASSERT_TRUE(notes.ok()) << notes.status();
  EXPECT_THAT(*notes, IsEmpty());
}

TEST(DeepSpeedKeyTable, FlagsAreThereAndReasonsAreGiven) {
  Flags flags;
  for (const DeepSpeedKey& key : DeepSpeedKeys()) {
    EXPECT_TRUE(key.flag.empty() || flags.set.Has(key.flag)) << key.path;
    if (key.treatment == DeepSpeedKey::Treatment::kRefused || key.treatment == DeepSpeedKey::Treatment::kNoEffect) {
      EXPECT_FALSE(key.why.empty()) << key.path;
    }
  }
}

TEST(OwnConfig, JsonAndTextSetFlagsByTheirNames) {
  Flags json;
  ASSERT_TRUE(json.Apply(R"({"zeroshard": {"stage": 3, "lr": 0.5, "overlap": false, "schedule": "linear"}})").ok());
  EXPECT_EQ(json.set.Value("stage"), "3");
  EXPECT_EQ(json.set.Value("clip"), "1");  // not DeepSpeed's default
  EXPECT_EQ(json.Optimizer().schedule.learning_rate, 0.5);
  EXPECT_EQ(json.Optimizer().schedule.kind, optim::ScheduleKind::kLinear);
  Flags text({"--stage=1"});
  ASSERT_TRUE(text.Apply("stage: 3\nlr: 0.5 overlap: false # a comment\nschedule: \"linear\"", "run.textproto").ok());
  EXPECT_EQ(text.set.Value("stage"), "1");
  EXPECT_FALSE(text.engine.Options().overlap);
}

TEST(OwnConfig, WhatIsWrongIsNamedWithItsLine) {
  Flags flags;
  EXPECT_THAT(flags.Error("{\"zeroshard\": {\n  \"stge\": 3}}"),
              "ds.json:2:3: there is no setting \"stge\"; did you mean \"stage\"?");
  EXPECT_THAT(flags.Error("{\"zeroshard\": {\"stage\": true}}"),
              HasSubstr("ds.json:1:25: stage is a boolean; it must be a number"));
  EXPECT_THAT(flags.Error("\nstge: 3", "run.textproto"), AllOf(StartsWith("run.textproto:2:"), HasSubstr("stge")));
  EXPECT_THAT(flags.Error("lr: 1\nstage: 9", "run.textproto"),
              StartsWith("run.textproto:2:1: stage = 9: must be between 0 and 3"));
}

TEST(OwnConfig, EverySettingOfTrainHasAField) {
  const TrainFlags flags;
  for (const FlagSetting& setting : flags.set().Settings()) {
    const std::vector<std::string> of_process = {"config", "save_config", "list_parameters", "step_floor"};
    if (std::find(of_process.begin(), of_process.end(), setting.name) != of_process.end()) continue;
    EXPECT_NE(TrainConfig::descriptor()->FindFieldByName(std::string(setting.name)), nullptr) << setting.name;
  }
}

TEST(OwnConfig, TheRecordOfARunAsksForTheSameRun) {
  Flags first({"--stage=3", "--lr=0.1", "--reduce_bucket_size=1e6"});
  Flags second;
  ASSERT_TRUE(second.Apply(ConfigJson(first.set)).ok()) << ConfigJson(first.set);
  EXPECT_EQ(ConfigJson(first.set), ConfigJson(second.set));
  EXPECT_EQ(second.set.Value("reduce_bucket_size"), "1000000");
  EXPECT_THAT(ConfigTable(first.set), AllOf(HasSubstr("stage"), HasSubstr("command line")));
}

}  // namespace
}  // namespace zeroshard::tools

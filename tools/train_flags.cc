#include "zeroshard/tools/train_flags.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/model/gpt_options.h"
#include "zeroshard/tools/config/batch_arithmetic.h"
#include "zeroshard/tools/config/config_file.h"
#include "zeroshard/tools/flags/user_path.h"
#include "zeroshard/tools/flags/writable.h"
#include "zeroshard/tools/launch/rank_processes.h"
#include "zeroshard/trainer/data/output_file.h"
#include "zeroshard/zero/model_check.h"
#include "zeroshard/zero/world_check.h"

namespace zeroshard::tools {
namespace {

constexpr char kData[] = "DATA: what is learned from";
constexpr char kModel[] = "MODEL: a GPT-2";
constexpr char kBatch[] = "STEPS: how much at a time, and how often";
constexpr char kOutput[] = "OUTPUT: what is written and shown";

constexpr char kPurpose[] =
    "Trains a GPT-2 on text with ZeRO, over several ranks. With no flag at all: two ranks of this machine, Gloo, stage 2, "
    "the English\n"
    "of Debian's dict-gcide, about two minutes. Results go to the standard output, all else to the standard error.";

trainer::ProgressStyle StyleOf(const std::string& progress, const JobPlan& plan) {
  if (progress == "none") return trainer::ProgressStyle::kNone;
  if (progress == "plain") return trainer::ProgressStyle::kPlain;
  const char* relay = std::getenv(kRelayVariable);
  const bool looked_on = plan.relayed ? relay != nullptr && std::string_view(relay) == "live" : isatty(STDERR_FILENO) != 0;
  return progress == "live" || looked_on ? trainer::ProgressStyle::kLive : trainer::ProgressStyle::kPlain;
}

}  // namespace

TrainFlags::TrainFlags() : set_("train", kPurpose) {
  // Sized so that the loss falls clearly in about two minutes on two cores.
  model_ = {.layers = 4, .heads = 4, .width = 192, .context = 128};
  batch_ = 8;
  steps_ = 900;
  RegisterData();
  RegisterModel();
  job_.Register(set_);
  engine_.Register(set_);
  activations_.Register(set_);
  precision_.Register(set_);
  optimizer_.Register(set_);
  groups_.Register(set_);
  product_choices_.Register(set_);
  RegisterOutput();
  report_.Register(set_);
}

void TrainFlags::RegisterData() {
  set_.Text("data", &data_,
            {.group = kData,
             .text = "A UTF-8 text file (or .gz), a token file (.bin of nanoGPT or llm.c), or a folder of either.",
             .example = "--data=corpus/",
             .default_text = "the text of Debian's dict-gcide"});
  set_.Text("tokenizer", &tokenizer_,
            {.group = kData,
             .text = "bytes, or the file of a SentencePiece model. auto: for dict-gcide a model of 2048 pieces, trained on "
                     "it once, where\n"
                     "      --vocab has room; else bytes.",
             .example = "--tokenizer=bytes"});
  set_.Integer("seed", &seed_, {.least = 0},
               {.group = kData, .text = "Of first weights, order of samples, sampled text.", .example = "--seed=7"});
}

void TrainFlags::RegisterModel() {
  const int64_t most = int64_t{1} << 30;
  set_.Integer("layers", &model_.layers, {.least = 1, .most = most},
               {.group = kModel, .text = "Blocks.", .example = "--layers=6"});
  set_.Integer("heads", &model_.heads, {.least = 1, .most = most},
               {.group = kModel, .text = "Attention heads of a block; they divide --width.", .example = "--heads=6"});
  set_.Integer("width", &model_.width, {.least = 1, .most = most},
               {.group = kModel, .text = "Of the residual stream.", .example = "--width=384", .unit = "elements"});
  set_.Integer("context", &model_.context, {.least = 1, .most = most},
               {.group = kModel, .text = "Length of a sequence.", .example = "--context=256", .unit = "tokens"});
  set_.Integer("vocab", &vocab_, {.least = 1, .most = most},
               {.group = kModel,
                .text = "Size of the vocabulary; more than the tokenizer has is padding.",
                .example = "--vocab=50304",
                .unit = "tokens",
                .default_text = "the tokenizer's; 50304 for token files"});
  set_.Boolean("tied", &model_.tied,
               {.group = kModel, .text = "The head's matrix is the embedding's.", .example = "--notied"});
  const int64_t most_rows = int64_t{1} << 30;
  set_.Integer(
      "train_batch", &train_batch_, {.least = 1, .most = int64_t{1} << 40},
      {.group = kBatch,
       .text = "Rows of a whole step, over all ranks and micro-batches; of this, --batch and --accumulation any two\n"
               "      give the third.",
       .example = "--train_batch=256",
       .unit = "sequences",
       .default_text = "--batch x --accumulation x ranks"});
  set_.Integer("batch", &batch_, {.least = 1, .most = most_rows},
               {.group = kBatch,
                .text = "Rows of a micro-batch on one rank.",
                .example = "--batch=4",
                .unit = "sequences",
                .default_text = absl::StrCat(batch_, ", or what --train_batch makes it")});
  set_.Integer("accumulation", &accumulation_, {.least = 1, .most = 1 << 20},
               {.group = kBatch,
                .text = "Micro-batches of a step.",
                .example = "--accumulation=4",
                .default_text = "1, or what --train_batch makes it"});
  set_.Integer("steps", &steps_, {.least = 1}, {.group = kBatch, .text = "Steps of the run.", .example = "--steps=20"});
}

void TrainFlags::RegisterOutput() {
  set_.Text(
      "config", &config_,
      {.group = kOutput,
       .text = "Settings from a file: DeepSpeed's JSON; ours under its key \"zeroshard\", or as text (.textproto). Flags\n"
               "      replace what it says.",
       .example = "--config=ds_config.json"});
  set_.Text("save_config", &save_config_,
            {.group = kOutput,
             .text = "Writes the settings that flags and --config come to, for --config to read again.",
             .example = "--save_config=run_config.json"});
  set_.Text("metrics", &metrics_,
            {.group = kOutput, .text = "JSON Lines, one object a step.", .example = "--metrics=run.jsonl"});
  set_.Text("summary", &summary_,
            {.group = kOutput, .text = "One JSON object at the end.", .example = "--summary=run.json"});
  set_.Integer("sample", &sample_, {.least = 0, .most = 1 << 20},
               {.group = kOutput,
                .text = "Text sampled from the model at the end; 0: none.",
                .example = "--sample=500",
                .unit = "tokens"});
  set_.Boolean("list_parameters", &list_parameters_,
               {.group = kOutput,
                .text = "Only print every parameter's name, shape, group, learning rate and weight decay, and end.",
                .example = "--list_parameters"});
  set_.Boolean("step_floor", &step_floor_,
               {.group = kOutput,
                .text = "Only measure how long a step's products and attention take by themselves, back to back, on each\n"
                        "      rank's device at once, and end: one JSON object with rank 0's times over --steps of them.",
                .example = "--step_floor"});
  set_.Choice("progress", &progress_, {"auto", "live", "plain", "none"},
              {.group = kOutput,
               .text = "One line that is written over, or plain lines. auto: live on a terminal.",
               .example = "--progress=plain"});
}

absl::Status TrainFlags::Parse(int argc, const char* const* argv) {
  ZS_ASSIGN_OR_RETURN(const std::vector<std::string> rest, set_.Parse(argc - 1, argv + 1));
  if (!rest.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", rest[0], "' is no flag: flags are written --name=value; --help lists them"));
  }
  if (config_.empty() || set_.help_requested()) return absl::OkStatus();
  ZS_ASSIGN_OR_RETURN(config_notes_, ApplyConfigFile(UserPath(config_), config_, set_));
  return absl::OkStatus();
}

absl::StatusOr<JobPlan> TrainFlags::Plan(int argc, const char* const* argv) const {
  const bool tree = set_.Value("dtype") != "fp32" || engine_.Options().world_invariant;
  return job_.Plan(set_, "train", argc, argv, tree ? comm::Reduction::kTree : comm::Reduction::kNative);
}

absl::Status TrainFlags::Announce(const JobPlan& plan, const std::function<void(std::string_view)>& note) const {
  if (plan.relayed || plan.rank != 0) return absl::OkStatus();
  for (const std::string& line : config_notes_) note(line);
  if (!config_.empty()) {
    ZS_ASSIGN_OR_RETURN(const BatchPlan batch, PlanBatch(BatchRequestOf(set_), plan.world_size));
    if (!batch.note.empty()) note(batch.note);
    note(absl::StrCat("settings of --config=", config_, " and flags; the others have their defaults:\n", ConfigTable(set_),
                      absl::StrFormat("  %-28s %d rows a step = %d x %d micro-batches x %d ranks", "batch",
                                      batch.train_batch, batch.batch, batch.accumulation, plan.world_size)));
  }
  if (save_config_.empty()) return absl::OkStatus();
  ZS_ASSIGN_OR_RETURN(trainer::OutputFile file, trainer::OutputFile::Create(UserPath(save_config_)));
  ZS_RETURN_IF_ERROR(file.Append(ConfigJson(set_)));
  return file.Close();
}

absl::Status TrainFlags::CheckStepFloor() const {
  for (const char* const flag : {"trace", "tensorboard"}) {
    if (!step_floor_ || set_.Value(flag).empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat(set_.Given(flag),
                                                   " with --step_floor, which runs products alone and no step that could be "
                                                   "traced or told of: leave out the one or the other"));
  }
  return absl::OkStatus();
}

absl::Status TrainFlags::CheckOutputs() const {
  ZS_RETURN_IF_ERROR(CheckWritable("metrics", UserPath(metrics_)));
  return CheckWritable("summary", UserPath(summary_));
}

absl::StatusOr<trainer::TrainOptions> TrainFlags::Options(const JobPlan& plan,
                                                          std::function<void(std::string_view)> notice) const {
  absl::StatusOr<trainer::TrainOptions> options = CheckedOptions(plan, std::move(notice));
  if (options.ok()) return options;
  return set_.WithPlaces(options.status());
}

absl::StatusOr<trainer::TrainOptions> TrainFlags::CheckedOptions(const JobPlan& plan,
                                                                 std::function<void(std::string_view)> notice) const {
  ZS_RETURN_IF_ERROR(CheckStepFloor());
  trainer::TrainOptions options;
  options.steps = steps_;
  options.sample_tokens = sample_;
  options.metrics_path = UserPath(metrics_);
  options.summary_path = UserPath(summary_);
  options.backend = plan.options.backend;
  options.config = ConfigJson(set_);
  options.progress = StyleOf(progress_, plan);
  options.relayed = plan.relayed;
  options.shares_process = plan.kind == JobPlan::Kind::kThreads;
  options.run.seed = static_cast<uint64_t>(seed_);
  ZS_ASSIGN_OR_RETURN(const BatchPlan batch, PlanBatch(BatchRequestOf(set_), plan.world_size));
  options.run.rows = batch.batch * plan.world_size;
  options.run.engine = engine_.Options();
  options.run.engine.accumulation = static_cast<int>(batch.accumulation);
  options.run.engine.clip = optimizer_.clip();
  ZS_ASSIGN_OR_RETURN(options.run.engine.optimizer, optimizer_.Options(set_, steps_));
  options.run.model = model_;
  ZS_RETURN_IF_ERROR(precision_.Apply(set_, options.run.engine, options.run.model));
  ZS_RETURN_IF_ERROR(zero::Validate(options.run.engine));
  ZS_RETURN_IF_ERROR(zero::CheckWorld(options.run.engine, plan.world_size));
  options.run.model.batch = batch.batch;
  activations_.Apply(options.run.model);
  options.run.model.vocab = std::max<int64_t>(1, vocab_);
  ZS_RETURN_IF_ERROR(model::ValidateGptOptions(options.run.model));
  ZS_RETURN_IF_ERROR(groups_.Apply(options.run.engine.optimizer, options.run.model));
  // What writes no file makes none.
  if (!step_floor_ && !list_parameters_) ZS_RETURN_IF_ERROR(CheckOutputs());
  if (!list_parameters_) ZS_RETURN_IF_ERROR(product_choices_.Fill(plan, save_config_, options));
  if (!list_parameters_) ZS_RETURN_IF_ERROR(report_.Fill(set_, options));
  ZS_ASSIGN_OR_RETURN(options.run.data, trainer::PrepareData({.path = UserPath(data_),
                                                              .tokenizer = tokenizer_ == "auto"    ? ""
                                                                           : tokenizer_ == "bytes" ? tokenizer_
                                                                                                   : UserPath(tokenizer_),
                                                              .vocab = vocab_,
                                                              .checked = plan.relayed,
                                                              .notice = notice},
                                                             model_.context));
  options.run.model.vocab = options.run.data.vocab;
  ZS_ASSIGN_OR_RETURN(const std::vector<model::UnitSpec> units, model::GptUnits(options.run.model));
  const bool starts_all_here = plan.kind != JobPlan::Kind::kOneRank && plan.options.hosts.empty();
  ZS_RETURN_IF_ERROR(zero::CheckModel(units, options.run.engine, plan.world_size, starts_all_here ? plan.world_size : 0));
  ZS_RETURN_IF_ERROR(report_.FillData(plan.relayed, std::move(notice), options));
  return options;
}

}  // namespace zeroshard::tools

#include "zeroshard/tools/train_flags.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/tools/flags/user_path.h"
#include "zeroshard/tools/launch/rank_processes.h"

namespace zeroshard::tools {
namespace {

constexpr char kData[] = "DATA: what is learned from";
constexpr char kModel[] = "MODEL: a GPT-2";
constexpr char kBatch[] = "STEPS: how much at a time, and how often";
constexpr char kOptimizer[] = "OPTIMIZER: how weights follow gradients";
constexpr char kOutput[] = "OUTPUT: what is written and shown";

constexpr char kPurpose[] =
    "Trains a GPT-2 on text with ZeRO, over several ranks. With no flag at all: two ranks of this machine, Gloo, stage 2, "
    "the English\n"
    "of Debian's dict-gcide, about two minutes. Results go to the standard output, all else to the standard error.";

absl::Status Contradiction(const std::string& words) { return absl::InvalidArgumentError(words); }

// That a file can be written, found out before hours of work; what is in it stays.
absl::Status CheckWritable(const std::string& flag, const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  const int descriptor = open(path.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write --", flag, "=", path));
  close(descriptor);
  return absl::OkStatus();
}

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
  lr_ = 2e-3;
  warmup_ = 40;
  RegisterData();
  RegisterModel();
  job_.Register(set_);
  engine_.Register(set_);
  activations_.Register(set_);
  RegisterOptimizer();
  RegisterOutput();
  for (const char* name :
       {"config", "shard_size", "eval_data", "eval_every", "eval_batches", "world_invariant", "trace", "tensorboard"}) {
    set_.Later(name);
  }
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
  set_.Choice("dtype", &dtype_, {"fp32"},
              {.group = kModel, .text = "Of parameters and activations.", .example = "--dtype=fp32"}, {"bf16", "fp16"});
  set_.Choice("gradient_dtype", &gradient_dtype_, {"fp32"},
              {.group = kModel, .text = "In which gradients are kept and added up.", .example = "--gradient_dtype=fp32"},
              {"bf16", "fp16"});
  const int64_t most_rows = int64_t{1} << 30;
  set_.Integer("batch", &batch_, {.least = 1, .most = most_rows},
               {.group = kBatch, .text = "Rows of a micro-batch on one rank.", .example = "--batch=4", .unit = "sequences"});
  set_.Integer("accumulation", &accumulation_, {.least = 1, .most = 1 << 20},
               {.group = kBatch, .text = "Micro-batches of a step.", .example = "--accumulation=4"});
  set_.Integer("steps", &steps_, {.least = 1}, {.group = kBatch, .text = "Steps of the run.", .example = "--steps=20"});
}

void TrainFlags::RegisterOptimizer() {
  set_.Choice("optimizer", &optimizer_, {"adamw", "adam", "sgd"},
              {.group = kOptimizer,
               .text = "adamw (decoupled decay), adam and sgd (decay added to the gradient).",
               .example = "--optimizer=sgd"});
  set_.Real("lr", &lr_, {.least = 0, .without_least = true},
            {.group = kOptimizer, .text = "Highest learning rate.", .example = "--lr=3e-4"});
  set_.Real(
      "min_lr", &min_lr_, {.least = 0},
      {.group = kOptimizer, .text = "Where linear and cosine end.", .example = "--min_lr=3e-5", .default_text = "lr / 10"});
  set_.Choice(
      "schedule", &schedule_, {"constant", "linear", "cosine"},
      {.group = kOptimizer, .text = "How the learning rate goes on after the warm-up.", .example = "--schedule=linear"});
  set_.Integer("warmup", &warmup_, {.least = 0},
               {.group = kOptimizer,
                .text = "Steps in which the learning rate rises; at most --steps.",
                .example = "--warmup=100",
                .unit = "steps",
                .default_text = absl::StrCat(warmup_, ", or a tenth of --steps if that is less")});
  set_.Real("beta1", &beta1_, {.least = 0, .most = 1, .without_most = true},
            {.group = kOptimizer, .text = "Adam's first decay.", .example = "--beta1=0.9"});
  set_.Real("beta2", &beta2_, {.least = 0, .most = 1, .without_most = true},
            {.group = kOptimizer, .text = "Adam's second decay.", .example = "--beta2=0.95"});
  set_.Real("eps", &eps_, {.least = 0}, {.group = kOptimizer, .text = "Adam's epsilon.", .example = "--eps=1e-8"});
  set_.Real("momentum", &momentum_, {.least = 0, .most = 1, .without_most = true},
            {.group = kOptimizer, .text = "SGD's momentum.", .example = "--momentum=0.9"});
  set_.Boolean("nesterov", &nesterov_,
               {.group = kOptimizer, .text = "SGD with Nesterov's momentum.", .example = "--nesterov"});
  set_.Real("weight_decay", &weight_decay_, {.least = 0},
            {.group = kOptimizer, .text = "Of matrices; biases and norms do not decay.", .example = "--weight_decay=0.1"});
  set_.Real("clip", &clip_, {.least = 0},
            {.group = kOptimizer, .text = "Largest global norm of a step's gradient; 0: off.", .example = "--clip=1"});
}

void TrainFlags::RegisterOutput() {
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
                .text = "Only print every parameter's name, shape and weight decay, and end.",
                .example = "--list_parameters"});
  set_.Choice("progress", &progress_, {"auto", "live", "plain", "none"},
              {.group = kOutput,
               .text = "One line that is written over, or plain lines. auto: live on a terminal.",
               .example = "--progress=plain"});
}

absl::Status TrainFlags::Parse(int argc, const char* const* argv) {
  ZS_ASSIGN_OR_RETURN(const std::vector<std::string> rest, set_.Parse(argc - 1, argv + 1));
  if (rest.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", rest[0], "' is no flag: flags are written --name=value; --help lists them"));
}

absl::StatusOr<JobPlan> TrainFlags::Plan(int argc, const char* const* argv) const {
  return job_.Plan(set_, "train", argc, argv);
}

absl::StatusOr<optim::OptimizerOptions> TrainFlags::Optimizer() const {
  optim::OptimizerOptions options;
  options.kind = optim::ParseKind(optimizer_).value_or(options.kind);
  options.beta1 = beta1_;
  options.beta2 = beta2_;
  options.eps = eps_;
  options.momentum = momentum_;
  options.nesterov = nesterov_;
  options.groups = {{.weight_decay = weight_decay_}, {.weight_decay = 0}};  // model::kDecayGroup, model::kNoDecayGroup
  const double min_lr = set_.WasSet("min_lr") ? min_lr_ : lr_ / 10;
  const int64_t warmup = set_.WasSet("warmup") ? warmup_ : std::min(warmup_, steps_ / 10);
  options.schedule = {.kind = optim::ParseScheduleKind(schedule_).value_or(options.schedule.kind),
                      .learning_rate = lr_,
                      .min_learning_rate = min_lr,
                      .warmup_steps = warmup,
                      .total_steps = steps_};
  if (min_lr > lr_)
    return Contradiction(absl::StrCat("--min_lr=", min_lr, " is above --lr=", lr_, ": take --min_lr=", lr_, " or less"));
  if (warmup > steps_) {
    return Contradiction(
        absl::StrCat("--warmup=", warmup, " is more than --steps=", steps_, ": take --warmup=", steps_, " or less"));
  }
  if (momentum_ > 0 && options.kind != optim::Kind::kSgd) {
    return Contradiction(absl::StrCat("--momentum=", momentum_, " is SGD's, but --optimizer=", optimizer_,
                                      ": take --optimizer=sgd, or leave it out"));
  }
  if (nesterov_ && momentum_ == 0) return Contradiction("--nesterov needs a momentum: give --optimizer=sgd --momentum=0.9");
  ZS_RETURN_IF_ERROR(optim::Validate(options));
  return options;
}

absl::Status TrainFlags::CheckOutputs() const {
  ZS_RETURN_IF_ERROR(CheckWritable("metrics", UserPath(metrics_)));
  return CheckWritable("summary", UserPath(summary_));
}

absl::StatusOr<trainer::TrainOptions> TrainFlags::Options(const JobPlan& plan,
                                                          std::function<void(std::string_view)> notice) const {
  trainer::TrainOptions options;
  options.steps = steps_;
  options.sample_tokens = sample_;
  options.metrics_path = UserPath(metrics_);
  options.summary_path = UserPath(summary_);
  options.backend = plan.options.backend;
  options.progress = StyleOf(progress_, plan);
  options.relayed = plan.relayed;
  options.shares_process = plan.kind == JobPlan::Kind::kThreads;
  options.run.seed = static_cast<uint64_t>(seed_);
  options.run.rows = batch_ * plan.world_size;
  options.run.engine = engine_.Options();
  options.run.engine.accumulation = static_cast<int>(accumulation_);
  options.run.engine.clip = clip_;
  ZS_ASSIGN_OR_RETURN(options.run.engine.optimizer, Optimizer());
  ZS_RETURN_IF_ERROR(zero::Validate(options.run.engine));
  options.run.model = model_;
  options.run.model.batch = batch_;
  activations_.Apply(options.run.model);
  options.run.model.vocab = std::max<int64_t>(1, vocab_);
  ZS_RETURN_IF_ERROR(model::ValidateGptOptions(options.run.model));
  ZS_RETURN_IF_ERROR(CheckOutputs());
  ZS_ASSIGN_OR_RETURN(options.run.data, trainer::PrepareData({.path = UserPath(data_),
                                                              .tokenizer = tokenizer_ == "auto"    ? ""
                                                                           : tokenizer_ == "bytes" ? tokenizer_
                                                                                                   : UserPath(tokenizer_),
                                                              .vocab = vocab_,
                                                              .checked = plan.relayed,
                                                              .notice = std::move(notice)},
                                                             model_.context));
  options.run.model.vocab = options.run.data.vocab;
  return options;
}

}  // namespace zeroshard::tools

#include "zeroshard/tools/optimizer_flags.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::tools {
namespace {

constexpr char kOptimizer[] = "OPTIMIZER: how weights follow gradients";
constexpr char kSchedule[] = "SCHEDULE: how the learning rate goes";

constexpr double kMuonMomentum = 0.95;  // the paper's
constexpr int64_t kMostSteps = int64_t{1} << 31;

// Which schedules look at a flag.
struct Use {
  std::string_view flag;
  std::vector<std::string> schedules;
};

const std::vector<Use>& Uses() {
  static const auto* const kUses = new std::vector<Use>{
      {"min_lr", {"linear", "cosine", "OneCycle"}},
      {"warmup", {"constant", "linear", "cosine", "WarmupLR", "WarmupDecayLR", "WarmupCosineLR"}},
      {"schedule_steps", {"linear", "cosine", "WarmupDecayLR", "WarmupCosineLR"}},
      {"warmup_type", {"WarmupLR", "WarmupDecayLR", "WarmupCosineLR"}},
      {"warmup_min_lr", {"WarmupLR", "WarmupDecayLR"}},
      {"warmup_min_ratio", {"WarmupCosineLR"}},
      {"cos_min_ratio", {"WarmupCosineLR"}},
      {"cycle_first_step_size", {"OneCycle"}},
      {"cycle_second_step_size", {"OneCycle"}},
      {"cycle_first_stair_count", {"OneCycle"}},
      {"cycle_second_stair_count", {"OneCycle"}},
      {"decay_step_size", {"OneCycle"}},
      {"decay_lr_rate", {"OneCycle"}},
      {"cycle_momentum", {"OneCycle"}},
      {"cycle_min_mom", {"OneCycle"}},
      {"cycle_max_mom", {"OneCycle"}},
  };
  return *kUses;
}

// A flag that was given and that the schedule does not look at would be silently lost.
absl::Status CheckUses(const FlagSet& flags, const std::string& schedule) {
  for (const Use& use : Uses()) {
    if (!flags.FromCommandLine(use.flag)) continue;
    if (std::find(use.schedules.begin(), use.schedules.end(), schedule) != use.schedules.end()) continue;
    return absl::InvalidArgumentError(absl::StrCat(flags.Given(use.flag),
                                                   " is of --schedule=", absl::StrJoin(use.schedules, " and "),
                                                   ", but the schedule is ", schedule, ": leave one of them out"));
  }
  return absl::OkStatus();
}

}  // namespace

void OptimizerFlags::Register(FlagSet& flags) {
  flags.Choice(
      "optimizer", &kind_, {"adamw", "adam", "sgd", "muon"},
      {.group = kOptimizer,
       .text = "adamw (decoupled decay), adam and sgd (decay added to the gradient), muon (the blocks' matrices; adamw for\n"
               "      the rest; with stage 0 or --partition=tensor).",
       .example = "--optimizer=sgd"});
  flags.Real("beta1", &beta1_, {.least = 0, .most = 1, .without_most = true},
             {.group = kOptimizer, .text = "Adam's first decay.", .example = "--beta1=0.9"});
  flags.Real("beta2", &beta2_, {.least = 0, .most = 1, .without_most = true},
             {.group = kOptimizer, .text = "Adam's second decay.", .example = "--beta2=0.95"});
  flags.Real("eps", &eps_, {.least = 0}, {.group = kOptimizer, .text = "Adam's epsilon.", .example = "--eps=1e-8"});
  flags.Real("momentum", &momentum_, {.least = 0, .most = 1, .without_most = true},
             {.group = kOptimizer,
              .text = "SGD's and Muon's momentum.",
              .example = "--momentum=0.9",
              .default_text = "0; Muon's 0.95"});
  flags.Boolean("nesterov", &nesterov_,
                {.group = kOptimizer,
                 .text = "Nesterov's momentum, of SGD and Muon.",
                 .example = "--nesterov",
                 .default_text = "off; Muon's on"});
  flags.Real("weight_decay", &weight_decay_, {.least = 0},
             {.group = kOptimizer, .text = "Of matrices; biases and norms do not decay.", .example = "--weight_decay=0.1"});
  flags.Real("clip", &clip_, {.least = 0},
             {.group = kOptimizer, .text = "Largest global norm of a step's gradient; 0: off.", .example = "--clip=1"});
  RegisterSchedule(flags);
  RegisterOneCycle(flags);
}

void OptimizerFlags::RegisterSchedule(FlagSet& flags) {
  flags.Choice("schedule", &schedule_,
               {"constant", "linear", "cosine", "WarmupLR", "WarmupDecayLR", "WarmupCosineLR", "OneCycle"},
               {.group = kSchedule,
                .text = "How the learning rate goes on after the warm-up; the last four are DeepSpeed's.",
                .example = "--schedule=linear"});
  flags.Real("lr", &lr_, {.least = 0, .without_least = true},
             {.group = kSchedule, .text = "Highest learning rate.", .example = "--lr=3e-4"});
  flags.Real("adam_lr", &adam_lr_, {.least = 0},
             {.group = kSchedule,
              .text = "Muon: highest learning rate of what AdamW takes.",
              .example = "--adam_lr=3e-4",
              .default_text = "--lr"});
  flags.Real("min_lr", &min_lr_, {.least = 0},
             {.group = kSchedule,
              .text = "Where linear and cosine end; where OneCycle begins and comes back to.",
              .example = "--min_lr=3e-5",
              .default_text = "lr / 10"});
  flags.Integer("warmup", &warmup_, {.least = 0, .most = kMostSteps},
                {.group = kSchedule,
                 .text = "Steps in which the learning rate rises; at most --steps.",
                 .example = "--warmup=100",
                 .unit = "steps",
                 .default_text = absl::StrCat(warmup_, ", or a tenth of --steps if that is less")});
  flags.Integer("schedule_steps", &schedule_steps_, {.least = 1, .most = kMostSteps},
                {.group = kSchedule,
                 .text = "Where a falling schedule ends, counted from step 0.",
                 .example = "--schedule_steps=1000",
                 .unit = "steps",
                 .default_text = "--steps"});
  flags.Choice("warmup_type", &warmup_type_, {"log", "linear"},
               {.group = kSchedule, .text = "How DeepSpeed's warm-ups rise.", .example = "--warmup_type=linear"});
  flags.Real("warmup_min_lr", &warmup_min_lr_, {.least = 0},
             {.group = kSchedule, .text = "Where WarmupLR and WarmupDecayLR begin.", .example = "--warmup_min_lr=1e-5"});
  flags.Real("warmup_min_ratio", &warmup_min_ratio_, {.least = 0, .most = 1},
             {.group = kSchedule, .text = "Where WarmupCosineLR begins, of --lr.", .example = "--warmup_min_ratio=0.1"});
  flags.Real("cos_min_ratio", &cos_min_ratio_, {.least = 0, .most = 1},
             {.group = kSchedule, .text = "Where WarmupCosineLR ends, of --lr.", .example = "--cos_min_ratio=0.1"});
}

void OptimizerFlags::RegisterOneCycle(FlagSet& flags) {
  flags.Integer("cycle_first_step_size", &first_steps_, {.least = 1, .most = kMostSteps},
                {.group = kSchedule, .text = "OneCycle: up.", .example = "--cycle_first_step_size=500", .unit = "steps"});
  flags.Integer("cycle_second_step_size", &second_steps_, {.least = 1, .most = kMostSteps},
                {.group = kSchedule,
                 .text = "OneCycle: down.",
                 .example = "--cycle_second_step_size=500",
                 .unit = "steps",
                 .default_text = "as up"});
  flags.Integer("cycle_first_stair_count", &first_stairs_, {.least = 0, .most = kMostSteps},
                {.group = kSchedule,
                 .text = "OneCycle: go up in so many stairs; 0: evenly.",
                 .example = "--cycle_first_stair_count=10"});
  flags.Integer("cycle_second_stair_count", &second_stairs_, {.least = 0, .most = kMostSteps},
                {.group = kSchedule,
                 .text = "OneCycle: go down in so many stairs; 0: evenly.",
                 .example = "--cycle_second_stair_count=10",
                 .default_text = "as up"});
  flags.Integer("decay_step_size", &decay_steps_, {.least = 0, .most = kMostSteps},
                {.group = kSchedule,
                 .text = "OneCycle: unit of --decay_lr_rate, after the cycle; 0: no decay.",
                 .example = "--decay_step_size=100",
                 .unit = "steps"});
  flags.Real("decay_lr_rate", &decay_lr_rate_, {.least = 0},
             {.group = kSchedule,
              .text = "OneCycle: after the cycle --min_lr is divided by 1 + this for each --decay_step_size.",
              .example = "--decay_lr_rate=0.001"});
  flags.Boolean("cycle_momentum", &cycle_momentum_,
                {.group = kSchedule,
                 .text = "OneCycle: Adam's beta1 goes the other way, with beta2 at 0.99.",
                 .example = "--nocycle_momentum"});
  flags.Real("cycle_min_mom", &cycle_min_mom_, {.least = 0, .most = 1, .without_most = true},
             {.group = kSchedule, .text = "OneCycle: lowest beta1.", .example = "--cycle_min_mom=0.8"});
  flags.Real("cycle_max_mom", &cycle_max_mom_, {.least = 0, .most = 1, .without_most = true},
             {.group = kSchedule, .text = "OneCycle: highest beta1.", .example = "--cycle_max_mom=0.9"});
}

absl::Status OptimizerFlags::CheckMomentum(const FlagSet& flags, optim::Kind kind) const {
  if (kind == optim::Kind::kMuon) return absl::OkStatus();
  if (momentum_ > 0 && kind != optim::Kind::kSgd) {
    return absl::InvalidArgumentError(absl::StrCat(flags.Given("momentum"), " is SGD's, but --optimizer=", kind_,
                                                   ": take --optimizer=sgd, or leave it out"));
  }
  if (nesterov_ && momentum_ == 0) {
    return absl::InvalidArgumentError("--nesterov needs a momentum: give --optimizer=sgd --momentum=0.9");
  }
  return absl::OkStatus();
}

optim::OneCycle OptimizerFlags::Cycle(const FlagSet& flags, optim::Kind kind) const {
  return {.first_steps = first_steps_,
          .second_steps = flags.WasSet("cycle_second_step_size") ? second_steps_ : first_steps_,
          .first_stairs = first_stairs_,
          .second_stairs = flags.WasSet("cycle_second_stair_count") ? second_stairs_ : first_stairs_,
          .decay_steps = decay_steps_,
          .decay_rate = decay_lr_rate_,
          .cycles_beta1 = cycle_momentum_ && kind != optim::Kind::kSgd,
          .min_beta1 = cycle_min_mom_,
          .max_beta1 = cycle_max_mom_};
}

absl::StatusOr<optim::Schedule> OptimizerFlags::Schedule(const FlagSet& flags, optim::Kind kind, int64_t steps) const {
  ZS_RETURN_IF_ERROR(CheckUses(flags, schedule_));
  optim::Schedule s;
  s.kind = optim::ParseScheduleKind(schedule_).value_or(s.kind);
  const bool cosine = s.kind == optim::ScheduleKind::kWarmupCosine;
  s.learning_rate = lr_;
  s.min_learning_rate = cosine ? lr_ * cos_min_ratio_ : flags.WasSet("min_lr") ? min_lr_ : lr_ / 10;
  s.warmup_steps = flags.WasSet("warmup") ? warmup_ : std::min(warmup_, steps / 10);
  s.total_steps = flags.WasSet("schedule_steps") ? schedule_steps_ : steps;
  s.warmup_from = cosine ? lr_ * warmup_min_ratio_ : warmup_min_lr_;
  s.warmup_shape = warmup_type_ == "log" ? optim::WarmupShape::kLogarithm : optim::WarmupShape::kLinear;
  s.cycle = Cycle(flags, kind);
  if (s.min_learning_rate > lr_) {
    return absl::InvalidArgumentError(
        absl::StrCat(flags.Given("min_lr"), " is above ", flags.Given("lr"), ": take --min_lr=", lr_, " or less"));
  }
  if (s.warmup_from > lr_) {
    return absl::InvalidArgumentError(
        absl::StrCat(flags.Given("warmup_min_lr"), " is above ", flags.Given("lr"), ": a warm-up rises"));
  }
  const bool ends = s.kind != optim::ScheduleKind::kWarmup && s.kind != optim::ScheduleKind::kOneCycle;
  if (ends && s.warmup_steps > s.total_steps) {
    const std::string total = flags.WasSet("schedule_steps") ? flags.Given("schedule_steps") : flags.Given("steps");
    return absl::InvalidArgumentError(
        absl::StrCat(flags.Given("warmup"), " is more than ", total, ": take --warmup=", s.total_steps, " or less"));
  }
  return s;
}

absl::StatusOr<optim::OptimizerOptions> OptimizerFlags::Options(const FlagSet& flags, int64_t steps) const {
  optim::OptimizerOptions options;
  options.kind = optim::ParseKind(kind_).value_or(options.kind);
  options.beta1 = beta1_;
  options.beta2 = beta2_;
  options.eps = eps_;
  options.momentum = momentum_;
  options.nesterov = nesterov_;
  if (options.kind == optim::Kind::kMuon) {
    if (!flags.WasSet("momentum")) options.momentum = kMuonMomentum;
    if (!flags.WasSet("nesterov")) options.nesterov = options.momentum > 0;
  }
  options.groups = {{.weight_decay = weight_decay_}, {.weight_decay = 0}};  // model::kDecayGroup, model::kNoDecayGroup
  ZS_RETURN_IF_ERROR(CheckMomentum(flags, options.kind));
  ZS_ASSIGN_OR_RETURN(options.schedule, Schedule(flags, options.kind, steps));
  if (flags.FromCommandLine("adam_lr") && options.kind != optim::Kind::kMuon) {
    return absl::InvalidArgumentError(absl::StrCat(flags.Given("adam_lr"), " is Muon's, but --optimizer=", kind_,
                                                   ": take --optimizer=muon, or leave it out"));
  }
  if (options.kind == optim::Kind::kMuon && flags.WasSet("adam_lr")) {
    for (optim::GroupOptions& group : options.groups) group.learning_rate_scale = adam_lr_ / lr_;
  }
  ZS_RETURN_IF_ERROR(optim::Validate(options));
  return options;
}

}  // namespace zeroshard::tools

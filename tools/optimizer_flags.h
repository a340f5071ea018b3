// Flags of the optimizer and of its learning rate's schedule.
//
// Example:
//   OptimizerFlags optimizer;
//   optimizer.Register(flags);
//   ZS_RETURN_IF_ERROR(flags.Parse(argc - 1, argv + 1).status());
//   ZS_ASSIGN_OR_RETURN(optim::OptimizerOptions options, optimizer.Options(flags, steps));
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/optim/optimizer_options.h"
#include "zeroshard/tools/flags/flag_set.h"

namespace zeroshard::tools {

class OptimizerFlags {
 public:
  void Register(FlagSet& flags);

  // What they say after flags.Parse, for a run of `steps`.
  // Errors: kInvalidArgument: flags that contradict each other, each as it was given, with the remedy.
  absl::StatusOr<optim::OptimizerOptions> Options(const FlagSet& flags, int64_t steps) const;
  // The largest global norm of a step's gradient; 0: off.
  double clip() const { return clip_; }

 private:
  void RegisterSchedule(FlagSet& flags);
  void RegisterOneCycle(FlagSet& flags);
  absl::StatusOr<optim::Schedule> Schedule(const FlagSet& flags, optim::Kind kind, int64_t steps) const;
  optim::OneCycle Cycle(const FlagSet& flags, optim::Kind kind) const;
  absl::Status CheckMomentum(const FlagSet& flags, optim::Kind kind) const;

  std::string kind_ = "adamw";
  double beta1_ = 0.9, beta2_ = 0.95, eps_ = 1e-8, momentum_ = 0, weight_decay_ = 0.1, clip_ = 1;
  bool nesterov_ = false;

  std::string schedule_ = "cosine", warmup_type_ = "log";
  double lr_ = 2e-3, adam_lr_ = 0, min_lr_ = 0, warmup_min_lr_ = 0, warmup_min_ratio_ = 0, cos_min_ratio_ = 1e-4;
  int64_t warmup_ = 40, schedule_steps_ = 0;

  int64_t first_steps_ = optim::OneCycle{}.first_steps, second_steps_ = 0;
  int64_t first_stairs_ = 0, second_stairs_ = 0, decay_steps_ = 0;
  double decay_lr_rate_ = 0;
  bool cycle_momentum_ = true;
  double cycle_min_mom_ = optim::OneCycle{}.min_beta1, cycle_max_mom_ = optim::OneCycle{}.max_beta1;
};

}  // namespace zeroshard::tools

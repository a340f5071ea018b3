// The flags of tools:train, and what they come to.
//
// Example:
//   TrainFlags flags;
//   ZS_RETURN_IF_ERROR(flags.Parse(argc, argv));
//   ZS_ASSIGN_OR_RETURN(JobPlan plan, flags.Plan(argc, argv));
//   ZS_ASSIGN_OR_RETURN(trainer::TrainOptions options, flags.Options(plan));
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/tools/activation_flags.h"
#include "zeroshard/tools/engine_flags.h"
#include "zeroshard/tools/flags/flag_set.h"
#include "zeroshard/tools/group_flags.h"
#include "zeroshard/tools/job_flags.h"
#include "zeroshard/tools/optimizer_flags.h"
#include "zeroshard/tools/precision_flags.h"
#include "zeroshard/tools/product_choice_flags.h"
#include "zeroshard/tools/report_flags.h"
#include "zeroshard/trainer/train_options.h"

namespace zeroshard::tools {

class TrainFlags {
 public:
  TrainFlags();
  TrainFlags(const TrainFlags&) = delete;
  TrainFlags& operator=(const TrainFlags&) = delete;

  // The command line, then what --config has beside it.
  absl::Status Parse(int argc, const char* const* argv);
  const FlagSet& set() const { return set_; }
  // Whether only the list of parameters was asked for.
  bool list_parameters() const { return list_parameters_; }
  // Whether only the time of a step's products was asked for.
  bool step_floor() const { return step_floor_; }

  absl::StatusOr<JobPlan> Plan(int argc, const char* const* argv) const;

  // Says once for a job what a configuration came to, and writes --save_config. Errors: the system's, for that file.
  absl::Status Announce(const JobPlan& plan, const std::function<void(std::string_view)>& note) const;

  // Checks all that can be checked before a rank starts, the data included. `notice` is told what takes long.
  // Errors: kInvalidArgument and those of PrepareData: the value, what is allowed, the remedy.
  absl::StatusOr<trainer::TrainOptions> Options(const JobPlan& plan, std::function<void(std::string_view)> notice) const;

 private:
  absl::StatusOr<trainer::TrainOptions> CheckedOptions(const JobPlan& plan,
                                                       std::function<void(std::string_view)> notice) const;
  void RegisterData();
  void RegisterModel();
  void RegisterOutput();
  absl::Status CheckStepFloor() const;
  absl::Status CheckOutputs() const;

  FlagSet set_;
  JobFlags job_;
  EngineFlags engine_;
  ActivationFlags activations_;
  PrecisionFlags precision_;
  OptimizerFlags optimizer_;
  GroupFlags groups_;
  ProductChoiceFlags product_choices_;
  std::string config_, save_config_;
  std::vector<std::string> config_notes_;
  ReportFlags report_;
  std::string data_, tokenizer_ = "auto";
  int64_t vocab_ = 0, seed_ = 1337;
  model::GptOptions model_;
  int64_t train_batch_ = 0, batch_, accumulation_ = 1, steps_;
  std::string metrics_, summary_, progress_ = "auto";
  int64_t sample_ = 200;
  bool list_parameters_ = false, step_floor_ = false;
};

}  // namespace zeroshard::tools

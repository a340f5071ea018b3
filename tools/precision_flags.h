// Flags of mixed precision: in which types is computed, kept and sent, and how fp16's loss is scaled.
//
// Example:
//   PrecisionFlags precision;
//   precision.Register(flags);
//   ZS_RETURN_IF_ERROR(flags.Parse(argc - 1, argv + 1).status());
//   ZS_RETURN_IF_ERROR(precision.Apply(flags, engine_options, model_options));
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "zeroshard/model/gpt_options.h"
#include "zeroshard/tools/flags/flag_set.h"
#include "zeroshard/zero/engine_options.h"

namespace zeroshard::tools {

class PrecisionFlags {
 public:
  void Register(FlagSet& flags);

  // Writes what they say after flags.Parse into both; `engine` has its accumulation already.
  // Errors: kInvalidArgument: a loss scale that vanishes, or flags of the loss scale without fp16.
  absl::Status Apply(const FlagSet& flags, zero::EngineOptions& engine, model::GptOptions& model) const;

 private:
  void RegisterLossScale(FlagSet& flags);
  absl::Status CheckLossScale(const FlagSet& flags) const;

  std::string dtype_ = "fp32", gradient_dtype_ = "auto", communication_dtype_ = "auto";
  double loss_scale_ = 0;
  int64_t initial_scale_power_ = device::LossScale{}.initial_power;
  int64_t loss_scale_window_ = device::LossScale{}.window;
  int64_t hysteresis_ = device::LossScale{}.hysteresis;
  bool consecutive_hysteresis_ = false;
  double min_loss_scale_ = device::LossScale{}.minimum;
};

}  // namespace zeroshard::tools

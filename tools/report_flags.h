// The flags of tools:train that say what is watched of a run: evaluations, traces, events, flight records, limits.
//
// Example:
//   ReportFlags report;
//   report.Register(set);
//   ...
//   ZS_RETURN_IF_ERROR(report.Fill(set, plan, options));
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "zeroshard/tools/flags/flag_set.h"
#include "zeroshard/trainer/train_options.h"

namespace zeroshard::tools {

class ReportFlags {
 public:
  // This outlives the set's parsing.
  void Register(FlagSet& set);

  // What is not of data: to be called once the rest of `options` is filled in.
  // Errors: kInvalidArgument, naming the flag, its value and what is allowed; the system's for a path that cannot be written.
  absl::Status Fill(const FlagSet& set, trainer::TrainOptions& options) const;
  // The evaluation's data, by the tokenizer of the training data, which `options` has. `checked`, `notice`: as DataOptions.
  absl::Status FillData(bool checked, std::function<void(std::string_view)> notice, trainer::TrainOptions& options) const;

 private:
  absl::Status FillTrace(trainer::TrainOptions& options) const;
  absl::Status FillFlightFolder(trainer::TrainOptions& options) const;

  std::string eval_data_, trace_, trace_steps_, tensorboard_, flight_recorder_;
  int64_t eval_every_ = 0, eval_batches_ = 10, max_skipped_ = 0, steps_per_print_ = 0;
  bool wall_clock_breakdown_ = false;
};

}  // namespace zeroshard::tools

// What a run ends with: sampled text and the table of memory on the standard output, the summary in its file.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(absl::Status files, SayLastWords(*run, options, watch, losses));
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/trainer/step_watch.h"
#include "zeroshard/trainer/train_options.h"
#include "zeroshard/trainer/training_run.h"

namespace zeroshard::trainer {

struct FirstAndLastLoss {
  double first = 0;
  double last = 0;
};

// Collective, after the last step. Gives OK, or why the summary was not written. Errors: the communicator's, the engine's.
absl::StatusOr<absl::Status> SayLastWords(TrainingRun& run, const TrainOptions& options, const StepWatch& watch,
                                          const FirstAndLastLoss& losses);

}  // namespace zeroshard::trainer

// Training from first step to last words: steps, metrics, progress, and at the end sampled text, a table of memory, a summary.
//
// Every rank calls Train with a communicator of its own; which backend carries it is not known here. Rank 0 alone writes and prints.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(TrainOutcome outcome, Train(communicator, {.run = run_options, .steps = 600, .stop = &interrupted}));
//   if (!outcome.files.ok()) ...                // the run went well, a file did not
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/comm/communicator.h"
#include "zeroshard/device/loss_scale.h"
#include "zeroshard/trainer/train_options.h"

namespace zeroshard::trainer {

// For TrainOptions::max_skipped: five steps, or with a dynamic loss scale five more than it takes that to come to its minimum.
int64_t DefaultMaxSkipped(const device::LossScale& scale);

struct TrainOutcome {
  bool stopped = false;  // before its last step, because some rank was asked to
  int64_t steps = 0;     // done
  absl::Status files;    // why metrics, summary, trace or events are not whole
};

// Collective. Errors: kOutOfRange if losses or gradients stay non-finite, with rank and tensor; those of TrainingRun. An error
// carries, as its payload kFlightRecordPayload, the path of what this rank's communicators did last.
absl::StatusOr<TrainOutcome> Train(comm::Communicator& communicator, const TrainOptions& options);

}  // namespace zeroshard::trainer

// What is recorded of a run's steps: a trace of some of them, and a breakdown of each.
//
// It turns the spans of the rank's recorder on and off, and owns the memory they take. When the trace's last step is over (or the
// run), rank 0 takes the spans of all ranks, one rank after another, and writes the file; training goes on. Where the run dies
// before, each rank writes what it has: rank 0 to the file, rank r to FILE.rank-r.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(auto recording, StepRecording::Create(communicator, {.trace_path = "t.json", .first = 2, .last = 11}, 500));
//   recording->BeginStep(step);  ...  ZS_RETURN_IF_ERROR(recording->EndStep(step));
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/comm/communicator.h"
#include "zeroshard/trainer/step_breakdown.h"

namespace zeroshard::trainer {

struct RecordingOptions {
  std::string trace_path = {};  // empty: no trace; the same on all ranks
  int64_t first = 0;            // steps that are traced, the last one too
  int64_t last = -1;
  bool breakdown = false;
};

class StepRecording {
 public:
  // Memory that a trace takes at most; what has no room is counted in the trace's metadata.
  static constexpr int64_t kMostSpans = 400'000;

  // Collective where there is a trace. `spans_per_step`: an upper bound. Errors: the communicator's.
  static absl::StatusOr<std::unique_ptr<StepRecording>> Create(comm::Communicator& communicator,
                                                               const RecordingOptions& options, int64_t spans_per_step);
  ~StepRecording();
  StepRecording(const StepRecording&) = delete;
  StepRecording& operator=(const StepRecording&) = delete;

  void BeginStep(int64_t step);
  // Of the step so far. Zeros where nothing is recorded.
  StepBreakdown Breakdown() const;
  // Collective: writes the trace where this was its last step. Errors: the communicator's; not the file's.
  absl::Status EndStep(int64_t step);
  // Collective: writes the trace, if that has not been done.
  absl::Status Finish();
  // Not collective: what this rank has of a trace that cannot be finished any more.
  void Salvage();
  // OK, or why the trace is not whole.
  const absl::Status& file_status() const { return file_status_; }

 private:
  StepRecording(comm::Communicator& communicator, RecordingOptions options)
      : communicator_(communicator), options_(std::move(options)) {}
  bool Traced(int64_t step) const { return step >= options_.first && step <= options_.last; }
  absl::Status Collect();

  comm::Communicator& communicator_;
  RecordingOptions options_;
  int64_t clock_ahead_ns_ = 0;
  int64_t charged_bytes_ = 0;
  int64_t step_begin_ = 0;  // the step's first span
  int64_t kept_ = 0;        // spans of the trace so far
  bool written_ = false;
  absl::Status file_status_;
};

}  // namespace zeroshard::trainer

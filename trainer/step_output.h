// What each step leaves for people and programs, on rank 0: metrics, TensorBoard's events, progress.
//
// A file that cannot be written ends nothing: it is said once, and status() is the first such failure. Nothing is allocated but there.
//
// Example:
//   StepOutput output({.progress = {.steps = 600}, .metrics_path = "run.jsonl", .note = note});
//   ZS_RETURN_IF_ERROR(output.Open());
//   output.Write(metrics);
//   absl::Status files = output.Close();
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "zeroshard/trainer/metrics_file.h"
#include "zeroshard/trainer/progress.h"
#include "zeroshard/trainer/tensorboard/event_file.h"

namespace zeroshard::trainer {

struct StepOutputOptions {
  ProgressOptions progress = {};
  std::string metrics_path = {};        // empty: none
  std::string tensorboard_folder = {};  // empty: none
  std::function<void(std::string_view)> note = {};
};

class StepOutput {
 public:
  explicit StepOutput(StepOutputOptions options) : options_(std::move(options)), progress_(options_.progress) {}

  // Errors: the system's, with the path.
  absl::Status Open();
  void Write(const StepMetrics& metrics);
  // Leaves the progress standing; further notes begin on a line of their own.
  void EndProgress() { progress_.End(); }
  // OK, or what is not whole.
  absl::Status Close();

 private:
  void WriteEvents(const StepMetrics& metrics);
  void SayFailed(const absl::Status& status);

  StepOutputOptions options_;
  Progress progress_;
  std::optional<MetricsFile> metrics_;
  std::optional<EventFile> events_;
};

}  // namespace zeroshard::trainer

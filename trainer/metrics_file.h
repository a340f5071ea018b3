// The metrics of a run: JSON Lines, one object a step, written as it goes.
//
// A line goes out by one write() from a buffer of fixed size; nothing is allocated. What cannot be written (a full disk) does not end
// the run: the first failure is kept, and no more is written, so that no line is torn twice.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(MetricsFile metrics, MetricsFile::Create("run.jsonl"));
//   metrics.Write({.step = 0, .loss = 7.6, .learning_rate = 1e-4});
//   metrics.status();
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/trainer/step_breakdown.h"

namespace zeroshard::trainer {

struct StepMetrics {
  int64_t step = 0;
  double loss = 0;
  double learning_rate = 0;
  double gradient_norm = 0;  // before clipping
  double clip_factor = 1;
  int64_t tokens = 0;       // since the start, all ranks
  double tokens_per_s = 0;  // all ranks together
  double step_s = 0;
  bool skipped = false;
  int64_t samples = 0;        // sequences since the start, all ranks
  int64_t skipped_steps = 0;  // since the start
  double loss_scale = 0;      // 0: there is none
  std::optional<double> val_loss = {};
  std::optional<StepBreakdown> breakdown = {};  // of rank 0
};

// Writes the line, its end included, to `buffer` and gives its length. What is not finite becomes null.
inline constexpr size_t kMostMetricsBytes = 1024;
size_t FormatMetrics(const StepMetrics& metrics, std::span<char> buffer);

class MetricsFile {
 public:
  // Errors: the system's, with the path.
  static absl::StatusOr<MetricsFile> Create(const std::string& path);
  ~MetricsFile();
  MetricsFile(MetricsFile&& other) noexcept;
  MetricsFile& operator=(MetricsFile&&) = delete;

  // Gives true for the first line that could not be written: the moment to say so.
  bool Write(const StepMetrics& metrics);
  // OK, or why metrics are missing. Flushes to the disk.
  absl::Status Close();
  const absl::Status& status() const { return status_; }

 private:
  MetricsFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_;
  int descriptor_;
  absl::Status status_;
};

}  // namespace zeroshard::trainer

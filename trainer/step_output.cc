#include "zeroshard/trainer/step_output.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::trainer {

absl::Status StepOutput::Open() {
  if (!options_.metrics_path.empty()) {
    ZS_ASSIGN_OR_RETURN(MetricsFile metrics, MetricsFile::Create(options_.metrics_path));
    metrics_.emplace(std::move(metrics));
  }
  if (!options_.tensorboard_folder.empty()) {
    ZS_ASSIGN_OR_RETURN(EventFile events, EventFile::Create(options_.tensorboard_folder));
    events_.emplace(std::move(events));
  }
  return absl::OkStatus();
}

void StepOutput::SayFailed(const absl::Status& status) {
  progress_.End();
  if (options_.note) options_.note(absl::StrCat(status.message(), "; training goes on"));
}

void StepOutput::Write(const StepMetrics& metrics) {
  if (metrics_ && metrics_->Write(metrics)) SayFailed(metrics_->status());
  if (events_) WriteEvents(metrics);
  const bool shown = progress_.Show(metrics);
  if (!shown || !metrics.breakdown || !options_.note) return;
  std::array<char, 256> line;
  const size_t length = FormatBreakdown(*metrics.breakdown, metrics.step_s, line);
  progress_.End();
  options_.note(std::string_view(line.data(), length));
}

void StepOutput::WriteEvents(const StepMetrics& m) {
  std::array<Scalar, EventFile::kMostScalars> scalars = {Scalar{"loss", m.loss},
                                                         {"lr", m.learning_rate},
                                                         {"grad_norm", m.gradient_norm},
                                                         {"tokens_per_s", m.tokens_per_s},
                                                         {"step_s", m.step_s}};
  size_t count = 5;
  if (m.val_loss) scalars[count++] = {"val_loss", *m.val_loss};
  if (m.loss_scale != 0) {
    scalars[count++] = {"loss_scale", m.loss_scale};
    scalars[count++] = {"skipped_steps", static_cast<double>(m.skipped_steps)};
  }
  if (events_->Write(m.step, std::span(scalars).first(count))) SayFailed(events_->status());
}

absl::Status StepOutput::Close() {
  progress_.End();
  absl::Status status;
  if (metrics_) status.Update(metrics_->Close());
  if (events_) status.Update(events_->Close());
  return status;
}

}  // namespace zeroshard::trainer

#include "zeroshard/trainer/metrics_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"

namespace zeroshard::trainer {
namespace {

// One JSON object, put together in memory of a fixed size.
class Line {
 public:
  explicit Line(std::span<char> buffer) : buffer_(buffer) {}

  void Integer(const char* key, int64_t value) { Add("%s\"%s\": %lld", key, static_cast<long long>(value)); }
  void Boolean(const char* key, bool value) { Add("%s\"%s\": %s", key, value ? "true" : "false"); }
  void Real(const char* key, double value) {
    if (std::isfinite(value)) {
      Add("%s\"%s\": %.17g", key, value);
    } else {
      Add("%s\"%s\": %s", key, "null");
    }
  }
  size_t End() {
    const int added = std::snprintf(buffer_.data() + used_, buffer_.size() - used_, "}\n");
    return std::min(used_ + static_cast<size_t>(added), buffer_.size() - 1);
  }

 private:
  template <class Value>
  void Add(const char* format, const char* key, Value value) {
    const int added =
        std::snprintf(buffer_.data() + used_, buffer_.size() - used_, format, used_ == 0 ? "{" : ", ", key, value);
    used_ = std::min(used_ + static_cast<size_t>(added), buffer_.size() - 1);
  }

  std::span<char> buffer_;
  size_t used_ = 0;
};

void AddBreakdown(const StepBreakdown& breakdown, Line& line) {
  line.Real("forward_s", breakdown.forward_s);
  line.Real("recompute_s", breakdown.recompute_s);
  line.Real("backward_s", breakdown.backward_s);
  line.Real("optimizer_s", breakdown.optimizer_s);
  line.Real("gather_wait_s", breakdown.gather_wait_s);
  line.Real("reduction_wait_s", breakdown.reduction_wait_s);
  line.Real("other_wait_s", breakdown.other_wait_s);
}

}  // namespace

size_t FormatMetrics(const StepMetrics& m, std::span<char> buffer) {
  Line line(buffer);
  line.Integer("step", m.step);
  line.Real("loss", m.loss);
  line.Real("lr", m.learning_rate);
  line.Real("grad_norm", m.gradient_norm);
  line.Real("clip_factor", m.clip_factor);
  line.Real("clipped_norm", m.gradient_norm * m.clip_factor);
  line.Integer("tokens", m.tokens);
  line.Integer("samples", m.samples);
  line.Real("tokens_per_s", m.tokens_per_s);
  line.Real("step_s", m.step_s);
  line.Boolean("skipped", m.skipped);
  line.Integer("skipped_steps", m.skipped_steps);
  if (m.loss_scale != 0) line.Real("loss_scale", m.loss_scale);
  if (m.val_loss) line.Real("val_loss", *m.val_loss);
  if (m.breakdown) AddBreakdown(*m.breakdown, line);
  return line.End();
}

absl::StatusOr<MetricsFile> MetricsFile::Create(const std::string& path) {
  const int descriptor = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0666);
  if (descriptor < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write the metrics '", path, "'"));
  return MetricsFile(path, descriptor);
}

MetricsFile::~MetricsFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

MetricsFile::MetricsFile(MetricsFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)), status_(std::move(other.status_)) {}

bool MetricsFile::Write(const StepMetrics& metrics) {
  if (!status_.ok()) return false;
  std::array<char, kMostMetricsBytes> buffer;
  std::span<const char> rest = std::span(buffer).first(FormatMetrics(metrics, buffer));
  while (!rest.empty()) {
    const ssize_t written = write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      status_ =
          absl::ErrnoToStatus(errno, absl::StrCat("cannot write the metrics '", path_, "' from step ", metrics.step, " on"));
      return true;
    }
    rest = rest.subspan(static_cast<size_t>(written));
  }
  return false;
}

absl::Status MetricsFile::Close() {
  const int descriptor = std::exchange(descriptor_, -1);
  if (descriptor < 0) return status_;
  // A pipe or a device cannot be flushed, and need not be.
  const bool synced = fsync(descriptor) == 0 || errno == EINVAL || errno == EROFS;
  if ((!synced || close(descriptor) != 0) && status_.ok()) {
    status_ = absl::ErrnoToStatus(errno, absl::StrCat("cannot write the metrics '", path_, "'"));
  }
  return status_;
}

}  // namespace zeroshard::trainer

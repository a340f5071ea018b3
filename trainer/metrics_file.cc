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

// Room for a number in JSON, or null.
using Number = std::array<char, 32>;

const char* Json(double value, Number& buffer) {
  if (!std::isfinite(value)) return "null";
  std::snprintf(buffer.data(), buffer.size(), "%.17g", value);
  return buffer.data();
}

}  // namespace

size_t FormatMetrics(const StepMetrics& m, std::span<char> buffer) {
  std::array<Number, 7> n;
  constexpr char kFormat[] =
      "{\"step\": %lld, \"loss\": %s, \"lr\": %s, \"grad_norm\": %s, \"clip_factor\": %s, \"clipped_norm\": %s, \"tokens\": "
      "%lld, "
      "\"tokens_per_s\": %s, \"step_s\": %s, \"skipped\": %s}\n";
  const int length = std::snprintf(buffer.data(), buffer.size(), kFormat, static_cast<long long>(m.step), Json(m.loss, n[0]),
                                   Json(m.learning_rate, n[1]), Json(m.gradient_norm, n[2]), Json(m.clip_factor, n[3]),
                                   Json(m.gradient_norm * m.clip_factor, n[4]), static_cast<long long>(m.tokens),
                                   Json(m.tokens_per_s, n[5]), Json(m.step_s, n[6]), m.skipped ? "true" : "false");
  return std::min(static_cast<size_t>(length), buffer.size() - 1);
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
  std::array<char, 512> buffer;
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

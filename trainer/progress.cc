#include "zeroshard/trainer/progress.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace zeroshard::trainer {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kPlainLines = 40;
constexpr std::chrono::milliseconds kLiveEvery(100);
constexpr std::chrono::seconds kPlainEvery(10);
// Of the running mean of a step's time: weight of the newest.
constexpr double kSmoothing = 0.1;

// Reads a small file of /proc into `buffer`, with a zero at its end.
void ReadProc(const char* path, std::span<char> buffer) {
  buffer[0] = '\0';
  const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return;
  const ssize_t got = read(descriptor, buffer.data(), buffer.size() - 1);
  buffer[static_cast<size_t>(std::max<ssize_t>(0, got))] = '\0';
  close(descriptor);
}

int FormatDuration(double seconds, std::span<char> buffer) {
  const long long s = std::llround(seconds);
  if (s < 60) return std::snprintf(buffer.data(), buffer.size(), "%llds", s);
  if (s < 3600) return std::snprintf(buffer.data(), buffer.size(), "%lldm%02llds", s / 60, s % 60);
  return std::snprintf(buffer.data(), buffer.size(), "%lldh%02lldm", s / 3600, s / 60 % 60);
}

int FormatRate(double per_s, std::span<char> buffer) {
  if (per_s < 1000) return std::snprintf(buffer.data(), buffer.size(), "%.0f", per_s);
  if (per_s < 1e6) return std::snprintf(buffer.data(), buffer.size(), "%.1fk", per_s / 1e3);
  return std::snprintf(buffer.data(), buffer.size(), "%.2fM", per_s / 1e6);
}

}  // namespace

int64_t ResidentBytes() {
  std::array<char, 256> text;
  ReadProc("/proc/self/statm", text);
  long long pages = 0, resident = 0;
  if (std::sscanf(text.data(), "%lld %lld", &pages, &resident) != 2) return 0;
  return resident * sysconf(_SC_PAGESIZE);
}

int64_t PeakResidentBytes() {
  std::array<char, 4096> text;
  ReadProc("/proc/self/status", text);
  const char* line = std::strstr(text.data(), "VmHWM:");
  return line == nullptr ? 0 : std::atoll(line + std::strlen("VmHWM:")) * 1024;
}

size_t FormatProgress(const ProgressOptions& options, const StepMetrics& m, double step_s, int64_t resident_bytes,
                      std::span<char> buffer) {
  std::array<char, 32> rate, left, share, scale, evaluated, skipped;
  FormatRate(m.tokens_per_s, rate);
  FormatDuration(step_s * static_cast<double>(options.steps - m.step - 1), left);
  share[0] = '\0';
  if (options.peak_flops > 0) {
    std::snprintf(share.data(), share.size(), "  %.0f%% of peak",
                  100 * m.tokens_per_s * options.flops_per_token / options.peak_flops);
  }
  scale[0] = evaluated[0] = skipped[0] = '\0';
  if (m.loss_scale != 0) std::snprintf(scale.data(), scale.size(), "  scale %g", m.loss_scale);
  if (m.val_loss) std::snprintf(evaluated.data(), evaluated.size(), "  val %.4f", *m.val_loss);
  if (m.skipped_steps != 0) {
    std::snprintf(skipped.data(), skipped.size(), "  %lld skipped", static_cast<long long>(m.skipped_steps));
  }
  const int length = std::snprintf(
      buffer.data(), buffer.size(), "step %lld/%lld  loss %.4f%s  lr %.2e  grad %.3g%s  %s tok/s%s  %lld MB  %s left%s%s",
      static_cast<long long>(m.step + 1), static_cast<long long>(options.steps), m.loss, evaluated.data(), m.learning_rate,
      m.gradient_norm, scale.data(), rate.data(), share.data(), static_cast<long long>(resident_bytes / 1'000'000),
      left.data(), skipped.data(), m.skipped ? "  (skipped)" : "");
  return std::min(static_cast<size_t>(length), buffer.size() - 1);
}

Progress::Progress(const ProgressOptions& options) : options_(options) {}

bool Progress::Due(int64_t step) const {
  if (step == 0 || step + 1 == options_.steps) return true;
  const Clock::duration since = Clock::now() - shown_;
  if (options_.style == ProgressStyle::kLive) return since >= kLiveEvery;
  if (options_.every > 0) return (step + 1) % options_.every == 0;
  return (step + 1) % std::max<int64_t>(1, (options_.steps + kPlainLines - 1) / kPlainLines) == 0 || since >= kPlainEvery;
}

bool Progress::Show(const StepMetrics& metrics) {
  if (options_.style == ProgressStyle::kNone) return false;
  // The first step is no guide: it allocates, plans and touches memory.
  step_s_ = metrics.step <= 1 ? metrics.step_s : step_s_ + kSmoothing * (metrics.step_s - step_s_);
  if (!Due(metrics.step) && !metrics.val_loss) return false;
  shown_ = Clock::now();
  std::array<char, 320> line;
  size_t length = 0;
  const bool live = options_.style == ProgressStyle::kLive;
  if (live || options_.relayed) line[length++] = '\r';
  length += FormatProgress(options_, metrics, step_s_, ResidentBytes(), std::span(line).subspan(length, 280));
  standing_ = live;
  if (live && !options_.relayed) {
    std::memcpy(line.data() + length, "\033[K", 3);
    length += 3;
  } else {
    line[length++] = '\n';
  }
  Write(std::span(line).first(length));
  return true;
}

void Progress::End() {
  if (standing_) Write(options_.relayed ? std::span("\r\n", 2) : std::span("\n", 1));
  standing_ = false;
}

// What cannot be written here has nobody to read it.
void Progress::Write(std::span<const char> line) { (void)!write(options_.descriptor, line.data(), line.size()); }

}  // namespace zeroshard::trainer

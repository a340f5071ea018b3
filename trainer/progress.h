// How far a run is, for people: one line that is written over where somebody looks on, plain lines elsewhere.
//
//   step 120/600  loss 4.213  lr 1.2e-03  grad 0.91  12.3k tok/s  62% of peak  182 MB  1m05s left
//
// In fp16 with the loss's scale, after an evaluation with its loss, and where steps were skipped with how many.
//
// Nothing is allocated: lines are put together in a buffer of fixed size and go out by one write().
//
// Example:
//   Progress progress({.descriptor = 2, .style = ProgressStyle::kPlain, .steps = 600, .peak_flops = 2.8e11, .flops_per_token = 1e7});
//   progress.Show({.step = 119, .loss = 4.213, ...});
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "zeroshard/trainer/metrics_file.h"

namespace zeroshard::trainer {

enum class ProgressStyle : uint8_t {
  kNone,
  kPlain,  // a line now and then: the first step, the last, about forty between them, and one at least every ten seconds
  kLive,   // one line, written over at most ten times a second
};

struct ProgressOptions {
  int descriptor = 2;
  ProgressStyle style = ProgressStyle::kPlain;
  // Whether the process that started this one shows the lines: each then begins with '\r' and ends with '\n'.
  bool relayed = false;
  int64_t steps = 0;
  int64_t every = 0;           // in plain style: a line each so many steps; 0: about forty lines
  double peak_flops = 0;       // of all ranks' matrix products, a second; 0: not known
  double flops_per_token = 0;  // of a training step
};

class Progress {
 public:
  explicit Progress(const ProgressOptions& options);

  // Gives whether the line was due.
  bool Show(const StepMetrics& metrics);
  // Leaves the line that was written over standing.
  void End();

 private:
  bool Due(int64_t step) const;
  void Write(std::span<const char> line);

  ProgressOptions options_;
  std::chrono::steady_clock::time_point shown_;
  double step_s_ = 0;  // smoothed
  bool standing_ = false;
};

// The line for one step, without an end; gives its length. 280 bytes hold any line.
size_t FormatProgress(const ProgressOptions& options, const StepMetrics& metrics, double step_s, int64_t resident_bytes,
                      std::span<char> buffer);

// Memory of this process that is in RAM now, and the most it ever was (VmHWM). Read without allocating.
int64_t ResidentBytes();
int64_t PeakResidentBytes();

}  // namespace zeroshard::trainer

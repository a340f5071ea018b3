// What a whole training run is asked to do; the same on every rank but for what only rank 0 has a use for.
//
// Example:
//   TrainOptions options{.run = run_options, .steps = 600, .sample_tokens = 200, .metrics_path = "run.jsonl"};
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "zeroshard/trainer/data/prepare.h"
#include "zeroshard/trainer/progress.h"
#include "zeroshard/trainer/step_recording.h"
#include "zeroshard/trainer/training_run.h"

namespace zeroshard::trainer {

struct TrainOptions {
  RunOptions run;
  int64_t steps = 0;
  int64_t sample_tokens = 0;              // printed at the end
  std::string product_choices_path = {};  // what products ran by, for run.product_choices; empty: it is not kept
  std::string metrics_path = {};          // JSON Lines; empty: none
  std::string summary_path = {};          // JSON; empty: none
  std::string backend = {};               // for the summary
  std::string config = {};                // for the summary: JSON of all settings, or empty
  ProgressStyle progress = ProgressStyle::kPlain;
  int64_t steps_per_print = 0;          // plain progress: a line each so many steps; 0: about forty in all
  bool wall_clock_breakdown = false;    // with each line, where the step's time went; and in each step's metrics
  RecordingOptions recording = {};      // `breakdown` is set by the run
  std::string tensorboard_folder = {};  // event files; empty: none
  // Where a rank writes its flight record when the run dies; empty: it writes none.
  std::string flight_folder = {};
  // Validation between steps, after each `eval_every` steps and the last; without files there is none.
  PreparedData eval_data = {};
  int64_t eval_every = 0;     // 0: after the last step alone
  int64_t eval_batches = 10;  // at most, each of run.rows rows
  // The run ends when so many steps in a row had a gradient or a loss that is not finite.
  int64_t max_skipped = 5;
  bool relayed = false;  // see ProgressOptions
  // Whether ranks share this process, so that its memory is not one rank's.
  bool shares_process = false;
  // Set from outside (a signal) to end the run after the step under way, on all ranks. May be null.
  const std::atomic<bool>* stop = nullptr;
  std::function<void(std::string_view)> print = {};  // results: whole lines
  std::function<void(std::string_view)> note = {};   // remarks for people: one line without its end
};

}  // namespace zeroshard::trainer

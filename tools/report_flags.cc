#include "zeroshard/tools/report_flags.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/tools/flags/user_path.h"
#include "zeroshard/tools/flags/writable.h"
#include "zeroshard/trainer/data/cache.h"
#include "zeroshard/trainer/train.h"

namespace zeroshard::tools {
namespace {

constexpr char kReports[] = "REPORTS: what is watched of a run";

// Steady ones: the first two allocate, plan and touch memory.
constexpr int64_t kFirstTraced = 2;
constexpr int64_t kTraced = 10;

// That a folder takes files, found out before hours of work.
absl::Status CheckFolder(const std::string& flag, const std::string& path) {
  struct stat what = {};
  if (stat(path.c_str(), &what) == 0 && !S_ISDIR(what.st_mode)) errno = ENOTDIR;
  if (S_ISDIR(what.st_mode) && access(path.c_str(), W_OK | X_OK) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("cannot write into --", flag, "=", path, " (", std::strerror(errno),
                                                 "): name a folder that is there, and that takes files"));
}

// The same of one that is made where it is not there.
absl::Status MakeFolder(const std::string& flag, const std::string& path) {
  if (mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot make the folder of --", flag, "=", path));
  }
  return CheckFolder(flag, path);
}

std::string FolderOf(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace

void ReportFlags::Register(FlagSet& set) {
  set.Text("eval_data", &eval_data_,
           {.group = kReports,
            .text = "Data as --data has it, that is not trained on: its loss is measured between steps.",
            .example = "--eval_data=held_out.txt"});
  set.Integer("eval_every", &eval_every_, {.least = 0},
              {.group = kReports,
               .text = "Evaluations come after so many steps each, and after the last; 0: there alone.",
               .example = "--eval_every=100",
               .unit = "steps"});
  set.Integer("eval_batches", &eval_batches_, {.least = 1, .most = 1 << 20},
              {.group = kReports,
               .text = "Of an evaluation, at most, as large as training's micro-batches.",
               .example = "--eval_batches=20",
               .unit = "micro-batches of all ranks"});
  set.Integer("max_skipped", &max_skipped_, {.least = 0},
              {.group = kReports,
               .text = "The run ends (code 3) after so many steps in a row whose loss or gradients are not finite.",
               .example = "--max_skipped=20",
               .unit = "steps",
               .default_text = "5; with a dynamic loss scale 5 more than bring that to its minimum"});
  set.Integer("steps_per_print", &steps_per_print_, {.least = 0},
              {.group = kReports,
               .text = "Plain progress says a line each so many steps; 0: about forty in all.",
               .example = "--steps_per_print=10",
               .unit = "steps"});
  set.Boolean(
      "wall_clock_breakdown", &wall_clock_breakdown_,
      {.group = kReports,
       .text = "Where rank 0's time went, with each line of progress and in each step's metrics: forward, backward,\n"
               "      optimizer, waits for parameters and for gradients.",
       .example = "--wall_clock_breakdown"});
  set.Text(
      "trace", &trace_,
      {.group = kReports,
       .text = "What each rank and stream did when, of a few steps: JSON for ui.perfetto.dev or chrome://tracing, and for\n"
               "      tools:trace_report.",
       .example = "--trace=run.trace.json"});
  set.Text("trace_steps", &trace_steps_,
           {.group = kReports,
            .text = "The first and the last step of the trace; steps count from 0.",
            .example = "--trace_steps=100:109",
            .default_text = "ten steps, from the third on"});
  set.Text("tensorboard", &tensorboard_,
           {.group = kReports,
            .text = "A folder for TensorBoard's event files; made where it is not there.",
            .example = "--tensorboard=board"});
  set.Text("flight_recorder", &flight_recorder_,
           {.group = kReports,
            .text = "A folder that is there: when the run dies each rank leaves its last 256 operations in it, in\n"
                    "      flight_record.rank-R.jsonl. none: it does not.",
            .example = "--flight_recorder=logs",
            .default_text = "beside --summary, --metrics or --trace; else ~/.cache/zeroshard/flight_record"});
}

absl::Status ReportFlags::FillTrace(trainer::TrainOptions& options) const {
  trainer::RecordingOptions& recording = options.recording;
  if (trace_.empty()) {
    if (trace_steps_.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("--trace_steps=", trace_steps_, " without a trace: give --trace=FILE, or leave it out"));
  }
  recording.trace_path = UserPath(trace_);
  recording.first = options.steps > kFirstTraced ? kFirstTraced : 0;
  recording.last = std::min(options.steps - 1, recording.first + kTraced - 1);
  if (!trace_steps_.empty()) {
    const std::vector<std::string> ends = absl::StrSplit(trace_steps_, ':');
    if (ends.size() != 2 || !absl::SimpleAtoi(ends[0], &recording.first) || !absl::SimpleAtoi(ends[1], &recording.last) ||
        recording.first < 0 || recording.last < recording.first || recording.last >= options.steps) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--trace_steps=", trace_steps_, ": write FIRST:LAST with 0 <= FIRST <= ", "LAST < ", options.steps, " (--steps)"));
    }
  }
  return CheckWritable("trace", recording.trace_path);
}

absl::Status ReportFlags::FillFlightFolder(trainer::TrainOptions& options) const {
  if (flight_recorder_ == "none") return absl::OkStatus();
  if (!flight_recorder_.empty()) {
    options.flight_folder = UserPath(flight_recorder_);
    return CheckFolder("flight_recorder", options.flight_folder);
  }
  for (const std::string& path : {options.summary_path, options.metrics_path, options.recording.trace_path}) {
    if (path.empty()) continue;
    options.flight_folder = FolderOf(path);
    return absl::OkStatus();
  }
  // Nobody asked for it: where there is no such folder, there is no record.
  const absl::StatusOr<std::string> cache = trainer::CacheFolder();
  if (!cache.ok()) return absl::OkStatus();
  const std::string folder = absl::StrCat(*cache, "/flight_record");
  if (MakeFolder("flight_recorder", folder).ok()) options.flight_folder = folder;
  return absl::OkStatus();
}

absl::Status ReportFlags::Fill(const FlagSet& set, trainer::TrainOptions& options) const {
  options.eval_every = eval_every_;
  options.eval_batches = eval_batches_;
  const ReportFlags defaults;  // The record of a run sets them all.
  for (const char* flag : {"eval_every", "eval_batches"}) {
    const bool changed = eval_every_ != defaults.eval_every_ || eval_batches_ != defaults.eval_batches_;
    if (eval_data_.empty() && set.WasSet(flag) && changed) {
      return absl::InvalidArgumentError(absl::StrCat("--", flag, " without data: give --eval_data=PATH, or leave it out"));
    }
  }
  options.max_skipped =
      max_skipped_ > 0 ? max_skipped_ : trainer::DefaultMaxSkipped(options.run.engine.optimizer.loss_scale);
  options.steps_per_print = steps_per_print_;
  options.wall_clock_breakdown = wall_clock_breakdown_;
  if (!tensorboard_.empty()) {
    options.tensorboard_folder = UserPath(tensorboard_);
    ZS_RETURN_IF_ERROR(MakeFolder("tensorboard", options.tensorboard_folder));
  }
  ZS_RETURN_IF_ERROR(FillTrace(options));
  return FillFlightFolder(options);
}

absl::Status ReportFlags::FillData(bool checked, std::function<void(std::string_view)> notice,
                                   trainer::TrainOptions& options) const {
  if (eval_data_.empty()) return absl::OkStatus();
  absl::StatusOr<trainer::PreparedData> data = trainer::PrepareData({.path = UserPath(eval_data_),
                                                                     .tokenizer = options.run.data.tokenizer,
                                                                     .vocab = options.run.data.vocab,
                                                                     .checked = checked,
                                                                     .notice = std::move(notice)},
                                                                    options.run.model.context);
  if (!data.ok()) {
    return absl::Status(data.status().code(), absl::StrCat("--eval_data=", eval_data_, ": ", data.status().message()));
  }
  options.eval_data = *std::move(data);
  return absl::OkStatus();
}

}  // namespace zeroshard::tools

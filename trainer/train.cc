#include "zeroshard/trainer/train.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "zeroshard/device/our_thread.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/trainer/agreement.h"
#include "zeroshard/trainer/diagnosis.h"
#include "zeroshard/trainer/evaluation.h"
#include "zeroshard/trainer/flight_record.h"
#include "zeroshard/trainer/flops.h"
#include "zeroshard/trainer/initialize.h"
#include "zeroshard/trainer/last_words.h"
#include "zeroshard/trainer/machine_peak.h"
#include "zeroshard/trainer/product_choices.h"
#include "zeroshard/trainer/span_count.h"
#include "zeroshard/trainer/step_output.h"
#include "zeroshard/trainer/step_watch.h"

namespace zeroshard::trainer {
namespace {

constexpr int64_t kFirstSteadyStep = 2;  // from 0; it allocates nothing, and those after it

class Training {
 public:
  Training(comm::Communicator& communicator, const TrainOptions& options) : communicator_(communicator), options_(options) {}

  absl::StatusOr<TrainOutcome> Run();
  // What a run that died leaves behind.
  absl::Status Died(absl::Status status);

 private:
  absl::Status Prepare();
  // Rank 0's.
  absl::Status PrepareOutput(double peak_flops);
  int64_t SpansOfAStep() const;
  absl::StatusOr<TrainOutcome> RunSteps();
  absl::Status OneStep(int64_t step);
  bool EvaluatesAfter(int64_t step) const;
  absl::StatusOr<double> Evaluate();
  StepMetrics MetricsOf(const StepReport& report, double seconds) const;
  bool ScalesLoss() const { return options_.run.engine.optimizer.loss_scale.kind != device::LossScaleKind::kNone; }
  std::string AboutLossScale(const StepReport& report) const;
  absl::Status CheckFinite(const StepReport& report);
  void WatchIfLast();

  comm::Communicator& communicator_;
  TrainOptions options_;
  std::unique_ptr<TrainingRun> run_;
  std::unique_ptr<Evaluation> evaluation_;
  std::unique_ptr<StepRecording> recording_;
  std::optional<StepOutput> output_;  // rank 0's
  absl::Status choices_file_;
  std::optional<StepWatch> watch_;
  FirstAndLastLoss losses_;
  int64_t bad_in_a_row_ = 0;
  bool stop_ = false;
};

absl::Status Training::Prepare() {
  ZS_ASSIGN_OR_RETURN(const double peak, ProductPeak(communicator_.device(), options_.run.engine.dtype));
  ZS_RETURN_IF_ERROR(CheckAgreement(communicator_, options_));
  ZS_ASSIGN_OR_RETURN(options_.run.seed, AgreeOnSeed(communicator_, options_.run.seed));
  const RunOptions& run = options_.run;
  const auto first_weights = [&](zero::Engine& engine, const std::vector<model::UnitSpec>& units) {
    return InitializeWeights(engine, units, run.model.layers, run.seed, communicator_.rank());
  };
  ZS_ASSIGN_OR_RETURN(run_, TrainingRun::Create(communicator_, run, first_weights));
  if (!options_.eval_data.files.empty()) {
    ZS_ASSIGN_OR_RETURN(evaluation_, Evaluation::Create(*run_, options_.eval_data, options_.eval_batches));
  }
  options_.recording.breakdown = options_.wall_clock_breakdown;
  ZS_ASSIGN_OR_RETURN(recording_, StepRecording::Create(communicator_, options_.recording, SpansOfAStep()));
  if (communicator_.rank() == 0) {
    choices_file_ = KeepProductChoices(communicator_.device(), options_.product_choices_path, options_.note);
    ZS_RETURN_IF_ERROR(PrepareOutput(peak * communicator_.world_size()));
  }
  watch_.emplace(communicator_, options_.steps);
  WatchIfLast();
  return absl::OkStatus();
}

int64_t Training::SpansOfAStep() const {
  const zero::Layout& layout = run_->engine().layout();
  int64_t spans = SpansPerStep(layout, run_->engine().options());
  bool evaluates = evaluation_ != nullptr && options_.wall_clock_breakdown;
  for (int64_t s = options_.recording.first; s <= options_.recording.last && !evaluates; ++s) evaluates = EvaluatesAfter(s);
  if (evaluates) spans += SpansPerEvaluation(layout, evaluation_->batches());
  return spans;
}

absl::Status Training::PrepareOutput(double peak_flops) {
  output_.emplace(StepOutputOptions{.progress = {.style = options_.progress,
                                                 .relayed = options_.relayed,
                                                 .steps = options_.steps,
                                                 .every = options_.steps_per_print,
                                                 .peak_flops = peak_flops,
                                                 .flops_per_token = TrainingFlopsPerToken(options_.run.model)},
                                    .metrics_path = options_.metrics_path,
                                    .tensorboard_folder = options_.tensorboard_folder,
                                    .note = options_.note});
  return output_->Open();
}

StepMetrics Training::MetricsOf(const StepReport& report, double seconds) const {
  const BatchShape& shape = run_->shape();
  return {.step = report.step,
          .loss = report.loss,
          .learning_rate = report.result.learning_rate,
          .gradient_norm = report.result.gradient_norm,
          .clip_factor = report.result.clip_factor,
          .tokens = (report.step + 1) * shape.TokensPerStep(),
          .tokens_per_s = static_cast<double>(shape.TokensPerStep()) / seconds,
          .step_s = seconds,
          .skipped = report.result.skipped,
          .samples = (report.step + 1) * shape.rows * shape.accumulation,
          .skipped_steps = report.result.skipped_steps,
          .loss_scale = ScalesLoss() ? report.result.loss_scale : 0,
          .val_loss = {},
          .breakdown = {}};
}

std::string Training::AboutLossScale(const StepReport& report) const {
  if (!ScalesLoss()) return "";
  const device::LossScale& scale = options_.run.engine.optimizer.loss_scale;
  const std::string now = absl::StrCat("; the loss scale was ", report.result.loss_scale);
  if (scale.kind != device::LossScaleKind::kDynamic)
    return now + ", and is static: a smaller one, or a dynamic one, may help";
  return absl::StrCat(now, report.result.loss_scale <= scale.minimum ? ", its minimum" : ", above its minimum of ",
                      report.result.loss_scale <= scale.minimum ? "" : absl::StrCat(scale.minimum));
}

absl::Status Training::CheckFinite(const StepReport& report) {
  const bool bad = report.result.skipped || !std::isfinite(report.loss);
  bad_in_a_row_ = bad ? bad_in_a_row_ + 1 : 0;
  WatchIfLast();
  if (bad_in_a_row_ < options_.max_skipped) return absl::OkStatus();
  ZS_ASSIGN_OR_RETURN(const std::string words, DescribeNonFinite(*run_));
  const std::string since =
      bad_in_a_row_ == 1 ? "are not finite" : absl::StrCat("have not been finite for ", bad_in_a_row_, " steps in a row");
  return absl::OutOfRangeError(absl::StrCat("step ", report.step, ": the loss or the gradients ", since, " (loss ",
                                            report.loss, ", gradient norm ", report.result.gradient_norm, "): ", words,
                                            AboutLossScale(report), "; a smaller --lr or a longer --warmup may help"));
}

// Only the run's last words name a rank's own gradient, and other steps need not be slower for it.
void Training::WatchIfLast() { run_->engine().WatchGradients(bad_in_a_row_ + 1 >= options_.max_skipped); }

bool Training::EvaluatesAfter(int64_t step) const {
  if (evaluation_ == nullptr) return false;
  return step + 1 == options_.steps || (options_.eval_every > 0 && (step + 1) % options_.eval_every == 0);
}

// What it sends is no step's: barriers keep it apart.
absl::StatusOr<double> Training::Evaluate() {
  const comm::WireLedger& wire = communicator_.wire();
  ZS_RETURN_IF_ERROR(run_->engine().Barrier("evaluation"));
  const int64_t data = wire.sent_bytes(comm::Traffic::kData), control = wire.sent_bytes(comm::Traffic::kControl);
  ZS_ASSIGN_OR_RETURN(const double loss, evaluation_->Run());
  ZS_RETURN_IF_ERROR(run_->engine().Barrier("evaluation"));
  watch_->LeaveOut(wire.sent_bytes(comm::Traffic::kData) - data, wire.sent_bytes(comm::Traffic::kControl) - control);
  return loss;
}

absl::Status Training::OneStep(int64_t step) {
  // What NCCL's ranks agree upon of the second step's operations, on a thread of its own and not without allocating, is not the third's.
  if (step == kFirstSteadyStep) ZS_RETURN_IF_ERROR(run_->engine().Barrier("steady steps"));
  watch_->Begin(step);
  recording_->BeginStep(step);
  const bool stop = options_.stop != nullptr && options_.stop->load(std::memory_order_relaxed);
  ZS_ASSIGN_OR_RETURN(const StepReport report, run_->Step(stop));
  if (step == 0) losses_.first = report.loss;
  losses_.last = report.loss;
  const double seconds = watch_->Seconds();
  StepMetrics metrics = MetricsOf(report, seconds);
  if (options_.wall_clock_breakdown) metrics.breakdown = recording_->Breakdown();
  if (EvaluatesAfter(step)) {
    ZS_ASSIGN_OR_RETURN(metrics.val_loss, Evaluate());
  }
  if (output_) output_->Write(metrics);
  stop_ = report.stop;
  watch_->End(step, seconds);
  ZS_RETURN_IF_ERROR(recording_->EndStep(step));
  return CheckFinite(report);
}

absl::StatusOr<TrainOutcome> Training::RunSteps() {
  TrainOutcome outcome;
  for (; outcome.steps < options_.steps && !stop_; ++outcome.steps) ZS_RETURN_IF_ERROR(OneStep(outcome.steps));
  ZS_RETURN_IF_ERROR(recording_->Finish());
  if (output_) outcome.files = output_->Close();
  outcome.files.Update(choices_file_);
  outcome.files.Update(recording_->file_status());
  outcome.stopped = outcome.steps < options_.steps;
  if (outcome.stopped) return outcome;
  ZS_ASSIGN_OR_RETURN(const absl::Status summary, SayLastWords(*run_, options_, *watch_, losses_));
  outcome.files.Update(summary);
  return outcome;
}

absl::StatusOr<TrainOutcome> Training::Run() {
  // The rank's own thread is named once, before anything is allocated for the rank.
  device::OurThread::Begin(&communicator_.device());
  ZS_RETURN_IF_ERROR(Prepare());
  return RunSteps();
}

absl::Status Training::Died(absl::Status status) {
  if (output_) output_->EndProgress();
  if (recording_) recording_->Salvage();
  if (options_.flight_folder.empty()) return status;
  const absl::StatusOr<std::string> path = WriteFlightRecord(communicator_, options_.flight_folder, status);
  status.SetPayload(kFlightRecordPayload, absl::Cord(path.ok() ? *path : path.status().message()));
  return status;
}

}  // namespace

int64_t DefaultMaxSkipped(const device::LossScale& scale) {
  constexpr int64_t kUnexplained = 5;
  if (scale.kind != device::LossScaleKind::kDynamic) return kUnexplained;
  const auto halvings = static_cast<int64_t>(std::ceil(scale.initial_power - std::log2(scale.minimum)));
  return kUnexplained + std::max<int64_t>(1, scale.hysteresis) - 1 + std::max<int64_t>(0, halvings);
}

absl::StatusOr<TrainOutcome> Train(comm::Communicator& communicator, const TrainOptions& options) {
  Training training(communicator, options);
  absl::StatusOr<TrainOutcome> outcome = training.Run();
  if (outcome.ok()) return outcome;
  return training.Died(outcome.status());
}

}  // namespace zeroshard::trainer

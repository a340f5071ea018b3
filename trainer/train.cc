#include "zeroshard/trainer/train.h"

#include <cmath>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/our_thread.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/trainer/agreement.h"
#include "zeroshard/trainer/diagnosis.h"
#include "zeroshard/trainer/flops.h"
#include "zeroshard/trainer/initialize.h"
#include "zeroshard/trainer/last_words.h"
#include "zeroshard/trainer/machine_peak.h"
#include "zeroshard/trainer/metrics_file.h"
#include "zeroshard/trainer/step_watch.h"

namespace zeroshard::trainer {
namespace {

class Training {
 public:
  Training(comm::Communicator& communicator, const TrainOptions& options) : communicator_(communicator), options_(options) {}

  absl::StatusOr<TrainOutcome> Run();

 private:
  absl::Status Prepare();
  absl::Status OneStep(int64_t step);
  void Tell(const StepReport& report, double seconds);
  absl::Status CheckFinite(const StepReport& report);
  void Note(const std::string& text) const {
    if (options_.note && communicator_.rank() == 0) options_.note(text);
  }

  comm::Communicator& communicator_;
  TrainOptions options_;
  std::unique_ptr<TrainingRun> run_;
  std::optional<MetricsFile> metrics_;
  std::optional<Progress> progress_;
  std::optional<StepWatch> watch_;
  FirstAndLastLoss losses_;
  int64_t bad_in_a_row_ = 0;
  bool stop_ = false;
};

absl::Status Training::Prepare() {
  ZS_ASSIGN_OR_RETURN(const double peak, MeasureProductPeak(communicator_.device()));
  ZS_RETURN_IF_ERROR(CheckAgreement(communicator_, Fingerprint(options_)));
  ZS_ASSIGN_OR_RETURN(options_.run.seed, AgreeOnSeed(communicator_, options_.run.seed));
  const RunOptions& run = options_.run;
  const auto first_weights = [&](zero::Engine& engine, const std::vector<model::UnitSpec>& units) {
    return InitializeWeights(engine, units, run.model.layers, run.seed, communicator_.rank());
  };
  ZS_ASSIGN_OR_RETURN(run_, TrainingRun::Create(communicator_, run, first_weights));
  if (communicator_.rank() == 0) {
    progress_.emplace(ProgressOptions{.style = options_.progress,
                                      .relayed = options_.relayed,
                                      .steps = options_.steps,
                                      .peak_flops = peak * communicator_.world_size(),
                                      .flops_per_token = TrainingFlopsPerToken(options_.run.model)});
    if (!options_.metrics_path.empty()) {
      ZS_ASSIGN_OR_RETURN(MetricsFile metrics, MetricsFile::Create(options_.metrics_path));
      metrics_.emplace(std::move(metrics));
    }
  }
  watch_.emplace(communicator_, options_.steps);
  return absl::OkStatus();
}

// Rank 0's: everything that a step leaves for people and programs to read. Allocates nothing but where metrics fail.
void Training::Tell(const StepReport& report, double seconds) {
  const StepMetrics metrics{.step = report.step,
                            .loss = report.loss,
                            .learning_rate = report.result.learning_rate,
                            .gradient_norm = report.result.gradient_norm,
                            .clip_factor = report.result.clip_factor,
                            .tokens = (report.step + 1) * run_->shape().TokensPerStep(),
                            .tokens_per_s = static_cast<double>(run_->shape().TokensPerStep()) / seconds,
                            .step_s = seconds,
                            .skipped = report.result.skipped};
  if (metrics_ && metrics_->Write(metrics)) {
    progress_->End();
    Note(absl::StrCat(metrics_->status().message(), "; training goes on"));
  }
  progress_->Show(metrics);
}

absl::Status Training::CheckFinite(const StepReport& report) {
  const bool bad = report.result.skipped || !std::isfinite(report.loss);
  bad_in_a_row_ = bad ? bad_in_a_row_ + 1 : 0;
  if (bad_in_a_row_ < kMostSkippedInARow) return absl::OkStatus();
  ZS_ASSIGN_OR_RETURN(const std::string words, DescribeNonFinite(*run_));
  return absl::OutOfRangeError(absl::StrCat("step ", report.step, ": the loss or the gradients have not been finite for ",
                                            bad_in_a_row_, " steps in a row (loss ", report.loss, ", gradient norm ",
                                            report.result.gradient_norm, "): ", words,
                                            "; a smaller --lr or a longer --warmup may help"));
}

absl::Status Training::OneStep(int64_t step) {
  watch_->Begin(step);
  const bool stop = options_.stop != nullptr && options_.stop->load(std::memory_order_relaxed);
  ZS_ASSIGN_OR_RETURN(const StepReport report, run_->Step(stop));
  if (step == 0) losses_.first = report.loss;
  losses_.last = report.loss;
  if (communicator_.rank() == 0) Tell(report, watch_->Seconds());
  stop_ = report.stop;
  watch_->End(step);
  return CheckFinite(report);
}

absl::StatusOr<TrainOutcome> Training::Run() {
  // The rank's own thread is named once, before anything is allocated for the rank.
  device::OurThread::Begin(&communicator_.device());
  ZS_RETURN_IF_ERROR(Prepare());
  TrainOutcome outcome;
  while (outcome.steps < options_.steps && !stop_) {
    const absl::Status done = OneStep(outcome.steps);
    if (!done.ok()) {
      if (progress_) progress_->End();
      return done;
    }
    ++outcome.steps;
  }
  if (progress_) progress_->End();
  if (metrics_) outcome.files = metrics_->Close();
  outcome.stopped = outcome.steps < options_.steps;
  if (outcome.stopped) return outcome;
  ZS_ASSIGN_OR_RETURN(const absl::Status summary, SayLastWords(*run_, options_, *watch_, losses_));
  outcome.files.Update(summary);
  return outcome;
}

}  // namespace

absl::StatusOr<TrainOutcome> Train(comm::Communicator& communicator, const TrainOptions& options) {
  return Training(communicator, options).Run();
}

}  // namespace zeroshard::trainer

#include "zeroshard/trainer/last_words.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/trainer/data/tokenizer.h"
#include "zeroshard/trainer/flops.h"
#include "zeroshard/trainer/memory_table.h"
#include "zeroshard/trainer/printable.h"
#include "zeroshard/trainer/rank_report.h"
#include "zeroshard/trainer/sampler.h"
#include "zeroshard/trainer/summary.h"
#include "zeroshard/zero/formulas.h"

namespace zeroshard::trainer {
namespace {

constexpr char kVersion[] = "0.1.0";

// Text that begins as a line does; the tokens themselves where nobody knows what they mean.
absl::StatusOr<std::string> SampleText(TrainingRun& run, const TrainOptions& options) {
  SampleOptions sample{.tokens = options.sample_tokens, .seed = options.run.seed};
  const std::string& name = options.run.data.tokenizer;
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<int32_t> prompt;
  if (!name.empty()) {
    ZS_ASSIGN_OR_RETURN(tokenizer, LoadTokenizer(name));
    ZS_RETURN_IF_ERROR(tokenizer->Encode("\n", prompt));
    sample.known_vocab = tokenizer->vocab();
  }
  if (prompt.empty()) prompt.push_back(0);
  ZS_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, SampleTokens(run, sample, std::move(prompt)));
  return tokenizer == nullptr ? absl::StrJoin(tokens, " ") : Printable(tokenizer->Decode(tokens));
}

RunSummary Summarize(TrainingRun& run, const TrainOptions& options, const StepWatch& watch, const FirstAndLastLoss& losses,
                     std::vector<RankReport> reports) {
  const zero::EngineOptions& engine = run.engine().options();
  const double median_s = watch.MedianSeconds();
  const double tokens_per_s = median_s > 0 ? static_cast<double>(run.shape().TokensPerStep()) / median_s : 0;
  const double peak = run.communicator().device().PeakFlops(run.options().model.dtype) * run.communicator().world_size();
  const double flops = ModelFlopsPerToken(run.options().model, run.engine().layout().model_elements());
  return {.version = kVersion,
          .backend = options.backend,
          .config = options.config,
          .device = std::string(run.communicator().device().name()),
          .stage = engine.stage,
          .partition = std::string(zero::Name(engine.partition)),
          .dtype = std::string(device::Name(run.options().model.dtype)),
          .parameters = run.engine().layout().model_elements(),
          .steps = options.steps,
          .first_loss = losses.first,
          .last_loss = losses.last,
          .step_s_median = median_s,
          .tokens_per_s = tokens_per_s,
          .mfu = peak > 0 ? tokens_per_s * flops / peak : 0,
          .bits = {},
          .ranks = std::move(reports)};
}

std::string Headline(const RunSummary& s) {
  return absl::StrFormat(
      "loss %.4f -> %.4f in %d steps; %d parameters, %d ranks, stage %d, %s, %s; %.0f tokens/s; bits %s\n", s.first_loss,
      s.last_loss, s.steps, s.parameters, s.ranks.size(), s.stage, s.partition, s.backend, s.tokens_per_s, s.bits);
}

}  // namespace

absl::StatusOr<absl::Status> SayLastWords(TrainingRun& run, const TrainOptions& options, const StepWatch& watch,
                                          const FirstAndLastLoss& losses) {
  comm::Communicator& communicator = run.communicator();
  const int rank = communicator.rank();
  RankReport mine;
  mine.rank = rank;
  ZS_RETURN_IF_ERROR(run.engine().Barrier("end"));
  watch.Report(mine);
  DescribeProcess(communicator.device(), mine);
  mine.offload_file_bytes = zero::PredictFileBytes(run.engine().layout(), run.engine().options(), rank);
  mine.predicted_data_bytes_per_step = zero::PredictDataBytes(run.engine().layout(), run.engine().options(), rank);

  run.ReleaseActivations();
  std::string text;
  if (options.sample_tokens > 0) {
    ZS_ASSIGN_OR_RETURN(text, SampleText(run, options));
  }
  ZS_ASSIGN_OR_RETURN(const std::string bits, run.Bits());
  mine.peak_rss_bytes = options.shares_process && rank > 0 ? kNotMeasured : PeakResidentBytes();
  ZS_ASSIGN_OR_RETURN(std::vector<RankReport> reports, GatherReports(communicator, mine));
  if (rank != 0) return absl::OkStatus();

  const std::string table = MemoryTable(run.engine().layout(), run.engine().options(), reports);
  RunSummary summary = Summarize(run, options, watch, losses, std::move(reports));
  summary.bits = bits;
  if (options.print) {
    if (!text.empty()) options.print(absl::StrCat("\nsampled from the model:\n", text, "\n\n"));
    options.print(absl::StrCat(Headline(summary), "\n", table));
  }
  return options.summary_path.empty() ? absl::OkStatus() : WriteSummary(options.summary_path, summary);
}

}  // namespace zeroshard::trainer

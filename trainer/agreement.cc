#include "zeroshard/trainer/agreement.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/device/text_hash.h"
#include "zeroshard/trainer/host_collectives.h"

namespace zeroshard::trainer {
namespace {

constexpr char kLabel[] = "agreement";

// "--lr=0.5 where rank 0 has --lr=0.1": of settings that are not the same; but the seed, which is rank 0's for all. Empty where none is.
std::string Differences(const std::string& theirs, const std::string& rank_zeros) {
  using Json = nlohmann::json;
  constexpr size_t kMost = 3;
  const Json a = Json::parse(theirs, nullptr, /*allow_exceptions=*/false);
  const Json b = Json::parse(rank_zeros, nullptr, /*allow_exceptions=*/false);
  if (!a.is_object() || !b.is_object() || a.empty() || b.empty()) return "";
  const Json &settings = a.front(), &others = b.front();
  std::vector<std::string> parts;
  for (const auto& [name, value] : settings.items()) {
    const Json other = others.value(name, Json());
    if (name == "seed" || other == value) continue;
    parts.push_back(absl::StrCat("--", name, "=", value.dump(), " where rank 0 has --", name, "=", other.dump()));
  }
  if (parts.size() > kMost) {
    const size_t more = parts.size() - kMost;
    parts.resize(kMost);
    parts.push_back(absl::StrCat(more, " more"));
  }
  return absl::StrJoin(parts, ", ");
}

}  // namespace

absl::StatusOr<uint64_t> AgreeOnSeed(comm::Communicator& communicator, uint64_t seed) {
  ZS_ASSIGN_OR_RETURN(const std::vector<uint64_t> seeds, GatherRecords(communicator, seed, kLabel));
  return seeds[0];
}

int64_t Fingerprint(const TrainOptions& options) {
  const model::GptOptions& m = options.run.model;
  const zero::EngineOptions& e = options.run.engine;
  const optim::OptimizerOptions& o = e.optimizer;
  std::string text = absl::StrJoin({m.layers, m.heads, m.width, m.context, m.vocab, int64_t{m.tied}, options.run.rows,
                                    options.steps, options.sample_tokens, options.run.data.tokens},
                                   ",");
  absl::StrAppend(&text, ";", e.stage, ",", static_cast<int>(e.partition), ",", static_cast<int>(e.owner), ",",
                  e.reduce_scatter, ",", e.round_robin_gradients, ",", e.overlap, ",", e.keep_parameters, ",", e.prefetch,
                  ",", e.accumulation);
  absl::StrAppend(&text, ",", e.reduce_bucket_size, ",", static_cast<int>(o.kind), ",", o.nesterov, ",",
                  optim::Describe(o.schedule));
  std::vector<double> reals = {e.clip, o.beta1, o.beta2, o.eps, o.momentum};
  absl::StrAppend(&text, ",", options.eval_every, ",", options.eval_batches, ",", options.eval_data.tokens, ",",
                  options.max_skipped, ",", options.recording.trace_path.empty() ? 0 : 1, ",", options.recording.first, ",",
                  options.recording.last);
  for (const optim::GroupOptions& group : o.groups) reals.push_back(group.weight_decay);
  for (const double real : reals) absl::StrAppendFormat(&text, ";%.17g", real);
  return static_cast<int64_t>(device::TextHash(text));
}

absl::Status CheckAgreement(comm::Communicator& communicator, const TrainOptions& options) {
  ZS_ASSIGN_OR_RETURN(const std::vector<int64_t> all, GatherRecords(communicator, Fingerprint(options), kLabel));
  const auto other = std::find_if(all.begin(), all.end(), [&](int64_t fingerprint) { return fingerprint != all[0]; });
  if (other == all.end()) return absl::OkStatus();
  const auto rank = static_cast<int>(other - all.begin());
  std::string theirs = options.config, rank_zeros = options.config;
  ZS_RETURN_IF_ERROR(BroadcastText(communicator, rank, theirs, kLabel));
  ZS_RETURN_IF_ERROR(BroadcastText(communicator, /*root=*/0, rank_zeros, kLabel));
  const std::string differences = Differences(theirs, rank_zeros);
  return absl::FailedPreconditionError(absl::StrCat("rank ", rank, " was not given rank 0's flags or data: ",
                                                    differences.empty() ? "" : absl::StrCat("it has ", differences, "; "),
                                                    "give every rank the same"));
}

}  // namespace zeroshard::trainer

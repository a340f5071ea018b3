#include "zeroshard/trainer/diagnosis.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::trainer {
namespace {

int64_t NonFinite(std::span<const float> values) {
  return std::count_if(values.begin(), values.end(), [](float v) { return !std::isfinite(v); });
}

std::string Describe(const char* what, const model::ParameterSpec& parameter, int64_t bad) {
  return absl::StrCat(what, " '", parameter.name, "' [", absl::StrJoin(parameter.shape, ", "), "] holds ", bad,
                      bad == 1 ? " value that is" : " values that are", " not finite");
}

// The first tensor of a kind that is not finite throughout; empty if there is none.
template <class Read>
absl::StatusOr<std::string> FirstBad(TrainingRun& run, const char* what, const Read& read) {
  std::vector<float> values;
  for (const model::UnitSpec& unit : run.units()) {
    for (const model::ParameterSpec& parameter : unit.parameters) {
      if (!parameter.tied_to.empty()) continue;
      values.resize(static_cast<size_t>(model::Elements(parameter)));
      ZS_ASSIGN_OR_RETURN(const bool there, read(parameter, std::span<float>(values)));
      const int64_t bad = there ? NonFinite(values) : 0;
      if (bad > 0) return Describe(what, parameter, bad);
    }
  }
  return std::string();
}

}  // namespace

absl::StatusOr<std::string> DescribeNonFinite(TrainingRun& run) {
  std::string words;
  ZS_ASSIGN_OR_RETURN(const std::vector<double> losses, run.LossByRank());
  for (size_t rank = 0; rank < losses.size(); ++rank) {
    if (std::isfinite(losses[rank])) continue;
    absl::StrAppend(&words, "rank ", rank, "'s part of the loss is ", losses[rank], "; ");
    break;
  }
  ZS_ASSIGN_OR_RETURN(std::string bad, FirstBad(run, "parameter", [&](const auto& parameter, std::span<float> values) {
                        const absl::Status status = run.engine().ReadParameter(parameter.name, values);
                        return status.ok() ? absl::StatusOr<bool>(true) : absl::StatusOr<bool>(status);
                      }));
  if (bad.empty()) {
    ZS_ASSIGN_OR_RETURN(bad, FirstBad(run, "the gradient of", [&](const auto& parameter, std::span<float> values) {
                          if (!parameter.trainable) return absl::StatusOr<bool>(false);
                          const absl::Status status = run.engine().ReadGradient(parameter.name, values);
                          return status.ok() ? absl::StatusOr<bool>(true) : absl::StatusOr<bool>(status);
                        }));
  }
  return absl::StrCat(words, bad.empty() ? "all parameters and gradients are finite" : bad);
}

}  // namespace zeroshard::trainer

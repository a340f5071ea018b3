#include "zeroshard/trainer/diagnosis.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
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

// The first parameter whose values are not all finite; empty if there is none.
absl::StatusOr<std::string> FirstBadParameter(TrainingRun& run) {
  std::vector<float> values;
  for (const model::UnitSpec& unit : run.units()) {
    for (const model::ParameterSpec& parameter : unit.parameters) {
      if (!parameter.tied_to.empty()) continue;
      values.resize(static_cast<size_t>(model::Elements(parameter)));
      ZS_RETURN_IF_ERROR(run.engine().ReadParameter(parameter.name, values));
      const int64_t bad = NonFinite(values);
      if (bad == 0) continue;
      const bool is_nan = std::any_of(values.begin(), values.end(), [](float v) { return std::isnan(v); });
      return absl::StrCat("parameter '", parameter.name, "' [", absl::StrJoin(parameter.shape, ", "), "] holds ", bad,
                          bad == 1 ? " value that is" : " values that are", " not finite (", is_nan ? "NaN" : "Inf",
                          "; unit ", unit.name, ", ", std::string(device::Name(run.engine().options().dtype)), ")");
    }
  }
  return std::string();
}

// The first gradient of the last step that is not finite; empty if there is none.
absl::StatusOr<std::string> FirstBadGradient(TrainingRun& run) {
  ZS_ASSIGN_OR_RETURN(const std::optional<zero::NonFiniteGradient> bad, run.engine().FindNonFinite());
  if (!bad) return std::string();
  const zero::EngineOptions& options = run.engine().options();
  const std::string tensor = absl::StrCat("the gradient of '", bad->parameter, "' (unit ", bad->unit, ", ",
                                          std::string(device::Name(options.dtype)), ")");
  if (bad->rank >= 0) return absl::StrCat(tensor, " holds ", bad->is_nan ? "NaN" : "Inf", " on rank ", bad->rank);
  if (!bad->watched) return absl::StrCat(tensor, " is not finite");
  return absl::StrCat(tensor, " is finite on each rank, but its sum over ranks is not");
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
  ZS_ASSIGN_OR_RETURN(std::string bad, FirstBadParameter(run));
  if (bad.empty()) {
    ZS_ASSIGN_OR_RETURN(bad, FirstBadGradient(run));
  }
  return absl::StrCat(words, bad.empty() ? "all parameters and gradients are finite" : bad);
}

}  // namespace zeroshard::trainer

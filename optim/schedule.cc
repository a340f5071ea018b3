#include "zeroshard/optim/schedule.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace zeroshard::optim {

namespace {
constexpr ScheduleKind kKinds[] = {ScheduleKind::kConstant, ScheduleKind::kLinear, ScheduleKind::kCosine};

bool IsRate(double value) { return std::isfinite(value) && value >= 0; }
}  // namespace

absl::Status Validate(const Schedule& schedule) {
  if (!IsRate(schedule.learning_rate)) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule.learning_rate is ", schedule.learning_rate, "; it must be finite and at least 0"));
  }
  if (!IsRate(schedule.min_learning_rate)) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule.min_learning_rate is ", schedule.min_learning_rate, "; it must be finite and at least 0"));
  }
  if (schedule.warmup_steps < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule.warmup_steps is ", schedule.warmup_steps, "; it must be at least 0"));
  }
  if (schedule.total_steps < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule.total_steps is ", schedule.total_steps, "; it must be at least 0"));
  }
  const bool known = schedule.kind == ScheduleKind::kConstant || schedule.kind == ScheduleKind::kLinear ||
                     schedule.kind == ScheduleKind::kCosine;
  if (!known) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule.kind is ", static_cast<int>(schedule.kind), "; it must be kConstant, kLinear or kCosine"));
  }
  const bool decays = schedule.kind != ScheduleKind::kConstant;
  if (decays && schedule.min_learning_rate > schedule.learning_rate) {
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule.min_learning_rate is ", schedule.min_learning_rate, ", above schedule.learning_rate ",
        schedule.learning_rate, "; a ", std::string(Name(schedule.kind)), " schedule falls from one to the other"));
  }
  if (decays && schedule.total_steps < schedule.warmup_steps) {
    return absl::InvalidArgumentError(absl::StrCat("schedule.total_steps is ", schedule.total_steps,
                                                   ", below schedule.warmup_steps ", schedule.warmup_steps,
                                                   "; the warm-up is a part of the total"));
  }
  return absl::OkStatus();
}

std::string_view Name(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::kConstant:
      return "constant";
    case ScheduleKind::kLinear:
      return "linear";
    case ScheduleKind::kCosine:
      return "cosine";
  }
  return "unknown";
}

std::optional<ScheduleKind> ParseScheduleKind(std::string_view name) {
  for (ScheduleKind kind : kKinds) {
    if (Name(kind) == name) return kind;
  }
  return std::nullopt;
}

}  // namespace zeroshard::optim

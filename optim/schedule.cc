#include "zeroshard/optim/schedule.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace zeroshard::optim {

namespace {
constexpr ScheduleKind kKinds[] = {ScheduleKind::kConstant, ScheduleKind::kLinear,      ScheduleKind::kCosine,
                                   ScheduleKind::kWarmup,   ScheduleKind::kWarmupDecay, ScheduleKind::kWarmupCosine,
                                   ScheduleKind::kOneCycle};

// Products of two counts stay within 64 bits.
constexpr int64_t kMostSteps = int64_t{1} << 31;

absl::Status CheckRate(std::string_view field, double value) {
  if (std::isfinite(value) && value >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("schedule.", std::string(field), " is ", value, "; it must be finite and at least 0"));
}

absl::Status CheckSteps(std::string_view field, int64_t value, int64_t least) {
  if (value >= least && value <= kMostSteps) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("schedule.", std::string(field), " is ", value, "; it must be at least ",
                                                 least,
                                                 value > kMostSteps ? absl::StrCat(" and at most ", kMostSteps) : ""));
}

absl::Status ValidateCycle(const OneCycle& cycle) {
  absl::Status status = CheckSteps("cycle.first_steps", cycle.first_steps, 1);
  status.Update(CheckSteps("cycle.second_steps", cycle.second_steps, 1));
  status.Update(CheckSteps("cycle.first_stairs", cycle.first_stairs, 0));
  status.Update(CheckSteps("cycle.second_stairs", cycle.second_stairs, 0));
  status.Update(CheckSteps("cycle.decay_steps", cycle.decay_steps, 0));
  status.Update(CheckRate("cycle.decay_rate", cycle.decay_rate));
  if (!(cycle.min_beta1 >= 0 && cycle.min_beta1 <= cycle.max_beta1 && cycle.max_beta1 < 1)) {
    status.Update(absl::InvalidArgumentError(
        absl::StrCat("schedule.cycle moves beta1 between ", cycle.min_beta1, " and ", cycle.max_beta1,
                     "; both must be at least 0 and below 1, the first not the larger")));
  }
  return status;
}

bool IsKnown(ScheduleKind kind) { return Name(kind) != "unknown"; }

// Whether the schedule falls from learning_rate to min_learning_rate.
bool Falls(ScheduleKind kind) {
  return kind == ScheduleKind::kLinear || kind == ScheduleKind::kCosine || kind == ScheduleKind::kWarmupCosine ||
         kind == ScheduleKind::kOneCycle;
}

bool HasTotal(ScheduleKind kind) {
  return kind == ScheduleKind::kLinear || kind == ScheduleKind::kCosine || kind == ScheduleKind::kWarmupDecay ||
         kind == ScheduleKind::kWarmupCosine;
}
}  // namespace

absl::Status Validate(const Schedule& schedule) {
  absl::Status status = CheckRate("learning_rate", schedule.learning_rate);
  status.Update(CheckRate("min_learning_rate", schedule.min_learning_rate));
  status.Update(CheckRate("warmup_from", schedule.warmup_from));
  status.Update(CheckSteps("warmup_steps", schedule.warmup_steps, 0));
  status.Update(CheckSteps("total_steps", schedule.total_steps, 0));
  if (!IsKnown(schedule.kind)) {
    status.Update(absl::InvalidArgumentError(
        absl::StrCat("schedule.kind is ", static_cast<int>(schedule.kind), "; it must be a ScheduleKind")));
  }
  if (schedule.kind == ScheduleKind::kOneCycle) status.Update(ValidateCycle(schedule.cycle));
  if (!status.ok()) return status;
  if (Falls(schedule.kind) && schedule.min_learning_rate > schedule.learning_rate) {
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule.min_learning_rate is ", schedule.min_learning_rate, ", above schedule.learning_rate ",
        schedule.learning_rate, "; a ", std::string(Name(schedule.kind)), " schedule falls from one to the other"));
  }
  if (HasTotal(schedule.kind) && schedule.total_steps < schedule.warmup_steps) {
    return absl::InvalidArgumentError(absl::StrCat("schedule.total_steps is ", schedule.total_steps,
                                                   ", below schedule.warmup_steps ", schedule.warmup_steps,
                                                   "; the warm-up is a part of the total"));
  }
  if (IsDeepSpeedWarmup(schedule.kind) && schedule.warmup_from > schedule.learning_rate) {
    return absl::InvalidArgumentError(absl::StrCat("schedule.warmup_from is ", schedule.warmup_from,
                                                   ", above schedule.learning_rate ", schedule.learning_rate,
                                                   "; a warm-up rises"));
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
    case ScheduleKind::kWarmup:
      return "WarmupLR";
    case ScheduleKind::kWarmupDecay:
      return "WarmupDecayLR";
    case ScheduleKind::kWarmupCosine:
      return "WarmupCosineLR";
    case ScheduleKind::kOneCycle:
      return "OneCycle";
  }
  return "unknown";
}

std::optional<ScheduleKind> ParseScheduleKind(std::string_view name) {
  for (ScheduleKind kind : kKinds) {
    if (Name(kind) == name) return kind;
  }
  return std::nullopt;
}

std::string Describe(const Schedule& s) {
  std::string text = absl::StrFormat("%s %.17g %.17g %d %d", std::string(Name(s.kind)), s.learning_rate, s.min_learning_rate,
                                     s.warmup_steps, s.total_steps);
  if (IsDeepSpeedWarmup(s.kind)) {
    absl::StrAppendFormat(&text, " from %.17g, shape %d", s.warmup_from, static_cast<int>(s.warmup_shape));
  }
  if (s.kind != ScheduleKind::kOneCycle) return text;
  const OneCycle& c = s.cycle;
  absl::StrAppendFormat(&text, " cycle %d %d %d %d, decay %d %.17g, beta1 %d %.17g %.17g", c.first_steps, c.second_steps,
                        c.first_stairs, c.second_stairs, c.decay_steps, c.decay_rate, c.cycles_beta1, c.min_beta1,
                        c.max_beta1);
  return text;
}

}  // namespace zeroshard::optim

// Learning-rate schedules: a function of the number of applied steps alone, so that a skipped step does not move the rate.
//
// Plain numbers and one inline function: the operation that derives a step's scalars evaluates it where they live, and the
// host evaluates the same arithmetic for limits and tables.
//
// Example:
//   LearningRateSchedule s{.kind = ScheduleKind::kCosine, .learning_rate = 3e-3, .min_learning_rate = 3e-4, .warmup_steps =
//   5,
//                          .total_steps = 20};
//   LearningRateAt(s, 0);    // 6e-4: a fifth of the way up
//   LearningRateAt(s, 5);    // 3e-3
//   LearningRateAt(s, 20);   // 3e-4, and so ever after
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace zeroshard::device {

enum class ScheduleKind : uint8_t { kConstant, kLinear, kCosine };

// Warm-up: step s < warmup_steps has learning_rate * (s + 1) / warmup_steps. After it, with
// r = (s - warmup_steps) / max(1, total_steps - warmup_steps), at most 1: linear and cosine go from learning_rate to
// min_learning_rate, where they stay. Constant stays at learning_rate.
struct LearningRateSchedule {
  ScheduleKind kind = ScheduleKind::kConstant;
  double learning_rate = 1e-3;
  double min_learning_rate = 0;
  int64_t warmup_steps = 0;
  int64_t total_steps = 0;
};

// The rate of the step that follows `applied_steps` applied ones.
inline double LearningRateAt(const LearningRateSchedule& schedule, int64_t applied_steps) {
  const double peak = schedule.learning_rate;
  if (applied_steps < schedule.warmup_steps) {
    return peak * static_cast<double>(applied_steps + 1) / static_cast<double>(schedule.warmup_steps);
  }
  if (schedule.kind == ScheduleKind::kConstant) return peak;
  const int64_t length = schedule.total_steps - schedule.warmup_steps;
  const int64_t position = applied_steps - schedule.warmup_steps;
  if (position >= length) return position == 0 ? peak : schedule.min_learning_rate;
  const double r = static_cast<double>(position) / static_cast<double>(length);
  const double share = schedule.kind == ScheduleKind::kLinear ? 1 - r : 0.5 * (1 + std::cos(std::numbers::pi * r));
  return schedule.min_learning_rate + share * (peak - schedule.min_learning_rate);
}

}  // namespace zeroshard::device

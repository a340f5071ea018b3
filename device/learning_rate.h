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

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "zeroshard/device/host_device.h"
#include "zeroshard/device/one_cycle.h"

namespace zeroshard::device {

enum class ScheduleKind : uint8_t {
  kConstant,
  kLinear,
  kCosine,
  // DeepSpeed's, with its numbers at every step:
  kWarmup,        // WarmupLR: a warm-up, then constant
  kWarmupDecay,   // WarmupDecayLR: a warm-up, then evenly down
  kWarmupCosine,  // WarmupCosineLR: a warm-up, then half a cosine down
  kOneCycle,      // OneCycle: one_cycle.h
};

enum class WarmupShape : uint8_t { kLogarithm, kLinear };

// Constant, linear, cosine: step s < warmup_steps has learning_rate * (s + 1) / warmup_steps. After it, with
// r = (s - warmup_steps) / max(1, total_steps - warmup_steps), at most 1: linear and cosine go from learning_rate to
// min_learning_rate, where they stay. Constant stays at learning_rate.
//
// DeepSpeed's kinds: DeepSpeed sets the rate after each applied step, so that step s > 0 has what its formulas give for s - 1. With
// i = s - 1 and w = max(2, warmup_steps), while i < w the rate is warmup_from + g (learning_rate - warmup_from), where g is
// ln(i + 1) / ln(w) or i / w. kWarmup: then learning_rate. kWarmupDecay: then
// g = (total_steps - i) / max(1, total_steps - w), at least 0. kWarmupCosine: then from learning_rate to min_learning_rate by
// (1 + cos(pi p)) / 2, p = (i - w + 1) / max(1, total_steps - w), at most 1. Step 0 has warmup_from (kWarmupCosine: 0).
// kOneCycle goes between min_learning_rate and learning_rate.
struct LearningRateSchedule {
  ScheduleKind kind = ScheduleKind::kConstant;
  double learning_rate = 1e-3;
  double min_learning_rate = 0;
  int64_t warmup_steps = 0;
  int64_t total_steps = 0;
  double warmup_from = 0;                              // DeepSpeed's
  WarmupShape warmup_shape = WarmupShape::kLogarithm;  // DeepSpeed's
  OneCycle cycle = {};                                 // kOneCycle's
};

constexpr bool IsDeepSpeedWarmup(ScheduleKind kind) {
  return kind == ScheduleKind::kWarmup || kind == ScheduleKind::kWarmupDecay || kind == ScheduleKind::kWarmupCosine;
}

// Where kWarmup, kWarmupDecay or kWarmupCosine is after `applied_steps`.
ZS_HOST_DEVICE inline double DeepSpeedWarmupRate(const LearningRateSchedule& schedule, int64_t applied_steps) {
  const double peak = schedule.learning_rate, from = schedule.warmup_from;
  const bool cosine = schedule.kind == ScheduleKind::kWarmupCosine;
  if (applied_steps == 0) return cosine ? 0 : from;
  const int64_t i = applied_steps - 1;
  const int64_t warmup = std::max<int64_t>(2, schedule.warmup_steps);
  const auto length = static_cast<double>(std::max<int64_t>(1, schedule.total_steps - warmup));
  if (i < warmup) {
    const double share = schedule.warmup_shape == WarmupShape::kLinear
                             ? static_cast<double>(i) / static_cast<double>(warmup)
                             : std::log(static_cast<double>(i + 1)) * (1 / std::log(static_cast<double>(warmup)));
    return from + share * (peak - from);
  }
  if (schedule.kind == ScheduleKind::kWarmup) return peak;
  if (!cosine) return from + std::fmax(0.0, static_cast<double>(schedule.total_steps - i) / length) * (peak - from);
  const double progress = std::fmin(1.0, static_cast<double>(i - warmup + 1) / length);
  const double low = schedule.min_learning_rate;
  return low + (1 + std::cos(std::numbers::pi * progress)) / 2 * (peak - low);
}

// The rate of the step that follows `applied_steps` applied ones.
ZS_HOST_DEVICE inline double LearningRateAt(const LearningRateSchedule& schedule, int64_t applied_steps) {
  const double peak = schedule.learning_rate;
  if (IsDeepSpeedWarmup(schedule.kind)) return DeepSpeedWarmupRate(schedule, applied_steps);
  if (schedule.kind == ScheduleKind::kOneCycle) {
    return OneCycleRate(schedule.cycle, schedule.min_learning_rate, peak, applied_steps);
  }
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

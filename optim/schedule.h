// Learning-rate schedules: a function of the number of applied steps alone, so that a skipped step does not move it.
#pragma once

#include <cstdint>

namespace zeroshard::optim {

enum class ScheduleKind : uint8_t { kConstant, kLinear, kCosine };

// Warm-up: step s < warmup_steps has learning_rate * (s + 1) / warmup_steps. After it, with
// r = (s - warmup_steps) / max(1, total_steps - warmup_steps), at most 1: linear and cosine go from learning_rate to
// min_learning_rate, where they stay.
struct Schedule {
  ScheduleKind kind = ScheduleKind::kConstant;
  double learning_rate = 1e-3;
  double min_learning_rate = 0;
  int64_t warmup_steps = 0;
  int64_t total_steps = 0;
};

}  // namespace zeroshard::optim

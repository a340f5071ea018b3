// Learning-rate schedules as optimizers are given them. The numbers and the arithmetic are the device's (learning_rate.h),
// so the host's answer and the step's have the same bits.
//
// Example:
//   Schedule schedule{.kind = ScheduleKind::kCosine, .learning_rate = 3e-3, .min_learning_rate = 3e-4, .warmup_steps = 5,
//                     .total_steps = 20};
//   ZS_RETURN_IF_ERROR(Validate(schedule));
//   LearningRate(schedule, /*applied_steps=*/0);   // 6e-4
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "zeroshard/device/learning_rate.h"

namespace zeroshard::optim {

using Schedule = device::LearningRateSchedule;
using ScheduleKind = device::ScheduleKind;
using WarmupShape = device::WarmupShape;
using OneCycle = device::OneCycle;

// The rate of the step that follows `applied_steps` applied ones.
inline double LearningRate(const Schedule& schedule, int64_t applied_steps) {
  return device::LearningRateAt(schedule, applied_steps);
}

// Errors: kInvalidArgument, naming the field, its value and what is allowed.
absl::Status Validate(const Schedule& schedule);

// "constant", "linear", "cosine", "WarmupLR", "WarmupDecayLR", "WarmupCosineLR", "OneCycle".
std::string_view Name(ScheduleKind kind);
std::optional<ScheduleKind> ParseScheduleKind(std::string_view name);

// Every number of it, for ranks to compare.
std::string Describe(const Schedule& schedule);

}  // namespace zeroshard::optim

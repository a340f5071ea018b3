// A step's scalars: what the end of a training step decides once for all parameters. They live in device memory; no step
// waits for the host to decide.
//
// DeriveScalars (step_kernels.h) fills the struct from the exact norm, the optimizer's pass reads it and does nothing where
// `skip` is set, and the host's copy comes after, for metrics and limits. All zero is the state before the first step. A
// checkpoint restores applied_steps, skipped_steps and scaling; all else is derived anew by each step.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(Buffer scalars, device.Allocate(sizeof(StepScalars), Use::kCommunication, "step scalars"));
//   Array s = scalars.array(DType::kUint8);
//   device.step().DeriveScalars(stream, sum, rule, std::nullopt, s);
//   StepScalars host;
//   device.CopyToHost(stream, s, &host);
//   stream.Synchronize();                        // host.norm, host.clip_factor, host.learning_rate, ...
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>

#include "zeroshard/device/host_device.h"
#include "zeroshard/device/learning_rate.h"
#include "zeroshard/device/loss_scale.h"

namespace zeroshard::device {

struct StepScalars {
  double norm;                 // global L2 norm of the step's gradient, before clipping; NaN where a gradient is not finite
  double clip_factor;          // in (0, 1]; norm * clip_factor is the norm after clipping
  double gradient_multiplier;  // of stored gradients, for the optimizer: gradient_scale / loss_scale * clip_factor
  double learning_rate;        // of this step, before a group's learning_rate_scale
  double bias_correction1;     // 1 - beta1^applied_steps
  double bias_correction2;     // 1 - beta2^applied_steps
  int64_t applied_steps;       // this one included, unless it is skipped
  int64_t skipped_steps;       // ever; this one included, if it is skipped
  int64_t skipped_in_a_row;    // up to and with this step; 0 where it is applied
  int64_t non_finite_blocks;   // blocks of 64 gradient elements, over all ranks, that hold an Inf or a NaN
  int64_t skip;                // 1: nothing is applied
  double beta1;                // Adam's, of this step: a OneCycle schedule moves it
  double beta2;
  double loss_scale;       // that the stored gradients carry; norm is without it
  LossScaleState scaling;  // of the next step: scaling.scale is what its loss is multiplied by
};
static_assert(std::is_trivially_copyable_v<StepScalars>);

// How a step's scalars follow from its gradient; the same at every step.
struct StepRule {
  LearningRateSchedule schedule = {};
  double gradient_scale = 1;  // turns the stored gradient into the step's (2^-k, 1 / (N A), ...); positive
  double clip = 0;            // largest global L2 norm that is applied; 0: off
  double beta1 = 0;           // Adam's, where the schedule does not cycle it
  double beta2 = 0;
  LossScale loss_scale = {};
};

// The scalars of the step that follows `before`, whose stored gradients have this sum of squares over all ranks. Clipping is
// by min(1, clip / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_ has it. `learning_rate` overrides the schedule's.
ZS_HOST_DEVICE inline StepScalars NextScalars(const StepScalars& before, double sum_of_squares, int64_t non_finite_blocks,
                                              const StepRule& rule, std::optional<double> learning_rate) {
  constexpr double kClipEpsilon = 1e-6;
  StepScalars next = before;
  next.non_finite_blocks = non_finite_blocks;
  next.learning_rate = learning_rate ? *learning_rate : LearningRateAt(rule.schedule, before.applied_steps);
  if (next.scaling.scale == 0) next.scaling.scale = InitialLossScale(rule.loss_scale);
  next.loss_scale = next.scaling.scale;
  const double gradient_scale = rule.gradient_scale / next.loss_scale;
  next.norm = std::sqrt(sum_of_squares) * gradient_scale;
  next.skip = non_finite_blocks != 0;
  next.scaling = NextLossScale(rule.loss_scale, next.scaling, next.skip != 0);
  if (next.skip) {
    next.norm = std::numeric_limits<double>::quiet_NaN();
    next.clip_factor = 1;
    next.gradient_multiplier = 0;
    ++next.skipped_steps;
    ++next.skipped_in_a_row;
    return next;
  }
  next.clip_factor = rule.clip > 0 ? std::fmin(1.0, rule.clip / (next.norm + kClipEpsilon)) : 1.0;
  next.gradient_multiplier = gradient_scale * next.clip_factor;
  ++next.applied_steps;
  next.skipped_in_a_row = 0;
  const bool cycles = rule.schedule.kind == ScheduleKind::kOneCycle && rule.schedule.cycle.cycles_beta1;
  next.beta1 = cycles ? OneCycleBeta1(rule.schedule.cycle, before.applied_steps) : rule.beta1;
  next.beta2 = cycles ? kOneCycleBeta2 : rule.beta2;
  next.bias_correction1 = 1 - std::pow(next.beta1, static_cast<double>(next.applied_steps));
  next.bias_correction2 = 1 - std::pow(next.beta2, static_cast<double>(next.applied_steps));
  return next;
}

}  // namespace zeroshard::device

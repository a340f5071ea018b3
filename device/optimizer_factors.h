// What one optimizer pass multiplies by, derived from the pass and the step's scalars in fp64 and rounded once: the same on every
// device, so that the passes' bits are the same too.
//
// Example:
//   const AdamFactors f = MakeAdamFactors(pass, scalars[0]);
#pragma once

#include <cmath>

#include "zeroshard/device/host_device.h"
#include "zeroshard/device/step_kernels.h"

namespace zeroshard::device {

struct AdamFactors {
  float gradient_multiplier;
  float one_minus_beta1;
  float one_minus_beta2;
  float eps;
  float step_size;   // lr / bias_correction1
  float root_scale;  // 1 / sqrt(bias_correction2)
  float decay;       // decoupled: lr * weight_decay, of the weights; else weight_decay, into the gradient
  bool decoupled;
};
struct SgdFactors {
  float gradient_multiplier;
  float momentum;
  float step_size;  // lr
  float decay;      // weight_decay, into the gradient
  bool nesterov;
};

ZS_HOST_DEVICE inline AdamFactors MakeAdamFactors(const AdamPass& pass, const StepScalars& scalars) {
  const double lr = scalars.learning_rate * pass.learning_rate_scale;
  return {.gradient_multiplier = static_cast<float>(scalars.gradient_multiplier),
          .one_minus_beta1 = static_cast<float>(1 - scalars.beta1),
          .one_minus_beta2 = static_cast<float>(1 - scalars.beta2),
          .eps = static_cast<float>(pass.eps),
          .step_size = static_cast<float>(lr / scalars.bias_correction1),
          .root_scale = static_cast<float>(1 / std::sqrt(scalars.bias_correction2)),
          .decay = static_cast<float>(pass.decoupled ? lr * pass.weight_decay : pass.weight_decay),
          .decoupled = pass.decoupled};
}

ZS_HOST_DEVICE inline SgdFactors MakeSgdFactors(const SgdPass& pass, const StepScalars& scalars) {
  return {.gradient_multiplier = static_cast<float>(scalars.gradient_multiplier),
          .momentum = static_cast<float>(pass.momentum),
          .step_size = static_cast<float>(scalars.learning_rate * pass.learning_rate_scale),
          .decay = static_cast<float>(pass.weight_decay),
          .nesterov = pass.nesterov};
}

}  // namespace zeroshard::device

// The arithmetic of the optimizers on fp32 in host memory, by Highway. Every operation is an IEEE one (multiply-add,
// division, square root), so all vector widths, and bodies and tails, give the same bits.
//
// Example:
//   AdamFactors factors = MakeAdamFactors(pass, scalars);
//   AdamSpan(factors, gradients, weights, exp_avg, exp_avg_sq, n);
#pragma once

#include <cstddef>

#include "zeroshard/device/step_kernels.h"

namespace zeroshard::device {

// What one pass multiplies by, each rounded once from fp64.
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

AdamFactors MakeAdamFactors(const AdamPass& pass, const StepScalars& scalars);
SgdFactors MakeSgdFactors(const SgdPass& pass, const StepScalars& scalars);

// One step on n elements; see StepKernels::Adam and Sgd. A null momentum_buffer is momentum 0.
void AdamSpan(const AdamFactors& factors, const float* gradients, float* weights, float* exp_avg, float* exp_avg_sq,
              size_t n);
void SgdSpan(const SgdFactors& factors, const float* gradients, float* weights, float* momentum_buffer, size_t n);

}  // namespace zeroshard::device

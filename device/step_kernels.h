// Kernels of a training step's end: the exact norm, the step's scalars, the optimizers' fused passes. All take the stream
// first, return at once and allocate nothing; elementwise results have the same bits at any vector width, in body and tail.
//
// Example: the end of a step, on one rank.
//   step.AddPowers(stream, gradients, parts, 2, sum);  // of each parameter's part; padding is left out
//   communicator.AllReduce(sum, sum, ReduceOp::kSum);  // the words of all ranks, as int64
//   step.DeriveScalars(stream, sum, rule, std::nullopt, scalars);
//   step.Adam(stream, passes, gradients, scalars, weights, exp_avg, exp_avg_sq, /*write_back=*/{});
#pragma once

#include <optional>

#include "zeroshard/device/array.h"
#include "zeroshard/device/pieces.h"
#include "zeroshard/device/step_scalars.h"
#include "zeroshard/device/stream.h"

namespace zeroshard::device {

// What an optimizer's pass takes beside arrays and scalars (Adam's betas are among the scalars). Rates are of one parameter group; what
// is no rate is the same for all pieces of a call.
struct AdamPass {
  double eps = 1e-8;
  double weight_decay = 0;
  double learning_rate_scale = 1;
  bool decoupled = true;  // AdamW; false: the decay is added to the gradient (L2)
};
struct SgdPass {
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
  double learning_rate_scale = 1;
};

// Muon's, of one matrix.
struct MuonPass {
  double momentum = 0.95;
  bool nesterov = true;
  double weight_decay = 0;  // decoupled
  double learning_rate_scale = 1;
  double shape_scale = 1;  // of the orthogonal update
};

// Where Pieces are taken, they are disjoint, ascending and inside the arrays, of which all else is neither read nor written; the arrays
// count as touched from end to end.
class StepKernels {
 public:
  virtual ~StepKernels() = default;

  // sum += Σ |x|^p over the pieces, 0 < p < ∞, exactly in the order of things that could matter: powers are taken and added in
  // fp64 over blocks of 64 elements from each piece's start, in eight fixed lanes, and blocks are added without rounding
  // (exact_sum.h). So the value is the same however the blocks are spread over pieces, calls and ranks, if each piece starts on
  // a block of its parameter. An Inf or NaN counts its block into the last word. p == 2 runs at the speed of memory.
  //   x    fp32, bf16 or fp16
  //   sum  [kExactSumWords] int64, left normalised
  virtual void AddPowers(Stream& stream, In x, const Pieces<Plain>& pieces, double p, InOut sum) = 0;
  // largest[of] = max(largest[of], max |x|) for each piece, NaN where any is; `of` is each piece's own. x: fp32, bf16 or fp16;
  // largest: fp32.
  virtual void MaxMagnitude(Stream& stream, In x, const Pieces<int>& pieces, InOut largest) = 0;

  // One thread: scalars = NextScalars(scalars, value of sum, ...), from the sum of squares over all ranks.
  //   sum      [kExactSumWords] int64
  //   scalars  [sizeof(StepScalars)] uint8
  virtual void DeriveScalars(Stream& stream, In sum, const StepRule& rule, std::optional<double> learning_rate,
                             InOut scalars) = 0;

  // With g = gradients * gradient_multiplier, and m and v kept as moving averages in the form m + (1 - beta) (g - m), which
  // keeps the two weights' sum at 1 in fp32:
  //   exp_avg     <- beta1 exp_avg + (1 - beta1) g
  //   exp_avg_sq  <- beta2 exp_avg_sq + (1 - beta2) g^2
  //   weights     <- weights - lr (weight_decay weights + (exp_avg / bias_correction1) / (sqrt(exp_avg_sq /
  //   bias_correction2) + eps))
  // where lr is the step's rate times the group's; not decoupled: g has weight_decay * weights added, and the weights do not
  // decay otherwise. write_back gets the new weights, rounded to nearest even. Where `skip` is set nothing is written.
  //   gradients                     [n] fp32, bf16 or fp16
  //   weights, exp_avg, exp_avg_sq  [n] fp32
  //   write_back                    [n] bf16 or fp16, or empty
  virtual void Adam(Stream& stream, const Pieces<AdamPass>& pieces, In gradients, In scalars, InOut weights, InOut exp_avg,
                    InOut exp_avg_sq, Out write_back) = 0;

  // torch.optim.SGD without dampening: with g = gradients * gradient_multiplier + weight_decay * weights,
  //   momentum_buffer  <- momentum * momentum_buffer + g     (zeros before the first step)
  //   weights          <- weights - lr * (nesterov ? g + momentum * momentum_buffer : momentum_buffer)
  // An empty momentum_buffer is momentum 0. The rest is as in Adam.
  virtual void Sgd(Stream& stream, const Pieces<SgdPass>& pieces, In gradients, In scalars, InOut weights,
                   InOut momentum_buffer, Out write_back) = 0;

  // The three passes of Muon (optim/muon.h) beside its products. With g = gradients * gradient_multiplier:
  //   momentum_buffer  <- momentum * momentum_buffer + g
  //   direction        <- u / (|u| + 1e-7), u = nesterov ? g + momentum * momentum_buffer : momentum_buffer
  // The norm is the exact one, as in AddPowers. Where `skip` is set, momentum_buffer stays and direction is zeros.
  virtual void MuonDirection(Stream& stream, const MuonPass& pass, In gradients, In scalars, InOut momentum_buffer,
                             Out direction) = 0;
  // p = 3.4445 I - 4.7750 a + 2.0315 a_squared, all [n * n] fp32: a step of Newton-Schulz is x <- p x.
  virtual void MuonPolynomial(Stream& stream, In a, In a_squared, Out p) = 0;
  // weights <- weights - lr (weight_decay weights + shape_scale direction). The rest is as in Adam.
  virtual void MuonApply(Stream& stream, const MuonPass& pass, In direction, In scalars, InOut weights, Out write_back) = 0;
};

}  // namespace zeroshard::device

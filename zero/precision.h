// In which dtypes a rank holds, computes, sends and keeps things: what follows from EngineOptions, said once.
//
//   parameters   held, gathered and computed with; where they have two bytes, fp32 masters beside them are what the optimizer moves
//   backward     gradients as the model's backward leaves them
//   wire         gradients as they travel; sums over ranks are taken in fp32 and rounded to it once
//   gradients    as they are kept from micro-batch to micro-batch, and read by the optimizer
//
// Gradients are kept in the compute dtype with one micro-batch a step, in fp32 with more, unless gradient_dtype says otherwise. In
// stages 0 and 1 backward adds to what is kept, and that travels. In 2 and 3 each micro-batch travels, in the compute dtype where
// there are more than one, and is added to what is kept. communication_dtype makes a copy of another dtype travel.
//
// Note: Divisor. A sum of 32 ranks' 4096 is no fp16 value, their average is one. So two-byte gradients are divided by the number of
// ranks before the one rounding (ReduceOp::kAverage), and what is stored is the sum over ranks divided by `divisor`; the step's
// multiplier takes that into account. fp32 sums are stored as they are, divisor 1. prescale_gradients and gradient_predivide_factor
// divide each rank's gradient before it travels, in its own dtype, and by nothing after: the divisor is theirs.
//
// Example: bf16 with four micro-batches, stage 2.
//   Precision p = PrecisionOf(options, /*world_size=*/8);
//   p.backward;    // bf16
//   p.gradients;   // fp32
//   p.divisor;     // 8
#pragma once

#include "zeroshard/device/dtype.h"
#include "zeroshard/zero/engine_options.h"

namespace zeroshard::zero {

struct Precision {
  device::DType parameters = device::DType::kFloat32;
  device::DType backward = device::DType::kFloat32;
  device::DType wire = device::DType::kFloat32;
  device::DType gradients = device::DType::kFloat32;
  double prescale = 1;    // gradients are divided by this before they travel
  bool averages = false;  // ReduceOp::kAverage in place of kSum
  double divisor = 1;     // stored gradients are the sum over ranks (and micro-batches) divided by this

  bool has_masters() const { return parameters != device::DType::kFloat32; }
  // Whether what travels is a copy in another dtype than backward leaves.
  bool converts() const { return wire != backward; }
};

Precision PrecisionOf(const EngineOptions& options, int world_size);

// What a step's gradient is of the stored one, loss scale apart.
double GradientScale(const EngineOptions& options, int world_size);

}  // namespace zeroshard::zero

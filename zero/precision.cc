#include "zeroshard/zero/precision.h"

namespace zeroshard::zero {

using device::DType;

Precision PrecisionOf(const EngineOptions& options, int world_size) {
  const bool one_micro_batch = options.accumulation == 1;
  Precision p;
  p.parameters = options.dtype;
  p.gradients = options.gradient_dtype.value_or(one_micro_batch ? options.dtype : DType::kFloat32);
  p.backward = ShardsGradients(options.stage) && !one_micro_batch ? options.dtype : p.gradients;
  if (options.world_invariant) {
    p.gradients = DType::kFloat32;
    p.backward = options.gradient_dtype.value_or(options.dtype);
  }
  p.wire = options.communication_dtype.value_or(options.world_invariant ? DType::kFloat32 : p.backward);
  if (options.gradient_predivide_factor != 1) {
    p.prescale = options.gradient_predivide_factor;
  } else if (options.prescale_gradients) {
    p.prescale = world_size;
  }
  p.averages = p.wire != DType::kFloat32 && p.prescale == 1;
  p.divisor = p.averages ? world_size : p.prescale;
  return p;
}

double GradientScale(const EngineOptions& options, int world_size) {
  const double divisor = PrecisionOf(options, world_size).divisor;
  const double of_sum =
      options.average ? 1.0 / (static_cast<double>(world_size) * options.accumulation) : options.gradient_scale;
  return of_sum * divisor;
}

}  // namespace zeroshard::zero

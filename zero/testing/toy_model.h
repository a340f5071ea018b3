// A model that exists to test engines: any list of units, a loss that every parameter element enters by itself, gradients that
// depend on the parameter, the rank, the micro-batch, the step and the unit that uses it.
//
//   loss of a use      1/2 Σ_i c_i (p_i - t_i)^2, or Σ_i c_i p_i where backward reads no parameters
//   its gradient       c_i (p_i - t_i),           or c_i
//
// with c_i and t_i from a hash, in fp32, rounded where a gradient is stored in two bytes. So what an engine is to give can be computed by a few plain loops (reference.h), bit for bit.
//
// Example:
//   ToyModel model(units);
//   model.Forward(compute, u, parameters, {.rank = 0, .step = 3, .micro_batch = 1}, loss);
//   model.Backward(compute, u, parameters, targets, {.rank = 0, .step = 3, .micro_batch = 1}, engine.loss_scale());
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "zeroshard/device/array.h"
#include "zeroshard/device/stream.h"
#include "zeroshard/model/gradient_target.h"
#include "zeroshard/model/unit.h"

namespace zeroshard::zero::testing {

struct Sample {
  int rank = 0;
  int step = 0;
  int micro_batch = 0;
};

// c_i: in [-1, 1), a multiple of 2^-23.
float Coefficient(const Sample& sample, int unit, int parameter, int64_t element);
// t_i: in [-1, 1).
float Target(int parameter, int64_t element);
// Where parameters begin.
float Initial(const model::ParameterSpec& parameter, int64_t element);

// What one use of an element of this value adds to the loss.
double UseLoss(const Sample& sample, int unit, int parameter, bool reads, int64_t element, float value);
// One use's gradient of an element of this value.
float UseGradient(const Sample& sample, int unit, int parameter, bool reads, int64_t element, float value);

// What a ToyModel leaves in the padding behind each parameter and gradient that it is handed: nothing, or NaN.
enum class Padding : uint8_t { kLeft, kNaN };

class ToyModel {
 public:
  explicit ToyModel(std::vector<model::UnitSpec> units, Padding padding = Padding::kLeft)
      : units_(std::move(units)), padding_(padding) {}

  const std::vector<model::UnitSpec>& units() const { return units_; }

  // loss [1] fp64 += the unit's.
  void Forward(device::Stream& stream, int unit, std::span<const device::Array> parameters, const Sample& sample,
               device::Array loss) const;
  // Forward again for the sake of backward, which wants nothing of it: reads the parameters.
  void Recompute(device::Stream& stream, std::span<const device::Array> parameters) const;
  // loss_scale: [1] fp32, what gradients are multiplied by.
  void Backward(device::Stream& stream, int unit, std::span<const device::Array> parameters,
                std::span<const model::GradientTarget> targets, const Sample& sample, device::Array loss_scale) const;

 private:
  void Pad(device::Stream& stream, const device::Array& array) const;

  std::vector<model::UnitSpec> units_;
  Padding padding_;
};

}  // namespace zeroshard::zero::testing

#include "zeroshard/model/linear.h"

#include "zeroshard/device/status_macros.h"

namespace zeroshard::model {

using device::GemmSpec;

absl::StatusOr<Linear> Linear::Plan(device::Device& device, const LinearSpec& spec) {
  Linear linear;
  const GemmSpec forward{.m = spec.rows,
                         .k = spec.in,
                         .n = spec.out,
                         .transpose_b = true,
                         .bias = spec.bias,
                         .accumulate = spec.add_to_output,
                         .input = spec.dtype,
                         .output = spec.output,
                         .bias_dtype = spec.dtype,
                         .c_stride = spec.out_stride};
  if (spec.gelu) {
    ZS_ASSIGN_OR_RETURN(linear.forward_gelu_, device.PlanGeluGemm(forward));
  } else {
    ZS_ASSIGN_OR_RETURN(linear.forward_, device.PlanGemm(forward));
  }
  ZS_ASSIGN_OR_RETURN(linear.input_gradient_, device.PlanGemm({.m = spec.rows,
                                                               .k = spec.out,
                                                               .n = spec.in,
                                                               .accumulate = spec.add_to_input_gradient,
                                                               .input = spec.dtype,
                                                               .output = spec.input_gradient,
                                                               .a_stride = spec.out_stride}));
  GemmSpec weight{.m = spec.out,
                  .k = spec.rows,
                  .n = spec.in,
                  .transpose_a = true,
                  .input = spec.dtype,
                  .output = spec.gradient,
                  .a_stride = spec.out_stride};
  ZS_ASSIGN_OR_RETURN(linear.weight_gradient_, device.PlanGemm(weight));
  weight.accumulate = true;
  ZS_ASSIGN_OR_RETURN(linear.added_weight_gradient_, device.PlanGemm(weight));
  return linear;
}

void Linear::Forward(device::Stream& stream, device::In x, device::In weight, device::In bias, device::InOut y) const {
  forward_->Run(stream, x, weight, y, bias);
}

void Linear::ForwardGelu(device::Stream& stream, device::In x, device::In weight, device::In bias, device::Out y,
                         device::Out activated) const {
  forward_gelu_->Run(stream, x, weight, bias, y, activated);
}

void Linear::ForwardGeluInput(device::Stream& stream, device::In x, device::In weight, device::In bias, device::Out y,
                              device::Out scratch) const {
  forward_gelu_->RunInput(stream, x, weight, bias, y, scratch);
}

void Linear::InputGradient(device::Stream& stream, device::In d_y, device::In weight, device::InOut d_x) const {
  input_gradient_->Run(stream, d_y, weight, d_x);
}

void Linear::WeightGradient(device::Stream& stream, device::In d_y, device::In x, device::InOut d_weight,
                            device::WriteMode mode) const {
  device::Gemm& product = mode == device::WriteMode::kAccumulate ? *added_weight_gradient_ : *weight_gradient_;
  product.Run(stream, d_y, x, d_weight);
}

}  // namespace zeroshard::model

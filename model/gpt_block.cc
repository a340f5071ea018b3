#include "zeroshard/model/gpt_block.h"

#include <utility>

#include "zeroshard/device/status_macros.h"
#include "zeroshard/model/gradient_writer.h"

namespace zeroshard::model {
namespace {

using device::Array;
using device::Stream;
using device::WriteMode;

// The unit's parameters, in order.
enum BlockParameter {
  kNorm1Weight,
  kNorm1Bias,
  kQkvWeight,
  kQkvBias,
  kProjWeight,
  kProjBias,
  kNorm2Weight,
  kNorm2Bias,
  kFcWeight,
  kFcBias,
  kOutWeight,
  kOutBias,
};

// From shared.d_y, the gradient of a norm's output, to shared.d_residual, that of its input. The output itself, which the gradient of the
// product behind the norm wants, is left again in shared.y, unless that is frozen: in a pass of its own it would be read once more.
void BackwardNorm(Stream& stream, const Array& weight, const Array& bias, const NormActivations& norm,
                  const GptActivations& shared, const GradientTarget& behind) {
  const Array y = behind.array.empty() ? Array() : shared.y;
  stream.device().transformer().LayerNormBackward(stream, shared.d_y, norm.normalized, norm.inverse_deviation, weight,
                                                  shared.d_residual, WriteMode::kAccumulate, shared.partials,
                                                  {.rounded = shared.rounding(), .y = y, .bias = bias});
}

}  // namespace

absl::StatusOr<GptBlock> GptBlock::Plan(device::Device& device, const GptOptions& options) {
  const int64_t rows = options.batch * options.context, width = options.width;
  GptBlock block;
  block.width_ = width;
  ZS_ASSIGN_OR_RETURN(block.attention_, device.PlanAttention({.batch = options.batch,
                                                              .heads = options.heads,
                                                              .context = options.context,
                                                              .head_width = width / options.heads,
                                                              .dtype = options.dtype}));
  // Behind a norm: its output is what the activation wants, its input's gradient goes into the norm's backward.
  const auto first_of_branch = [&](int64_t out, bool gelu) {
    return Linear::Plan(device, {.rows = rows,
                                 .in = width,
                                 .out = out,
                                 .gelu = gelu,
                                 .dtype = options.dtype,
                                 .output = options.dtype,
                                 .gradient = options.gradient_dtype});
  };
  // Into the residual stream.
  const auto last_of_branch = [&](int64_t in) {
    return Linear::Plan(device, {.rows = rows,
                                 .in = in,
                                 .out = width,
                                 .add_to_output = true,
                                 .dtype = options.dtype,
                                 .input_gradient = options.dtype,
                                 .gradient = options.gradient_dtype});
  };
  ZS_ASSIGN_OR_RETURN(block.qkv_, first_of_branch(3 * width, /*gelu=*/false));
  ZS_ASSIGN_OR_RETURN(block.proj_, last_of_branch(width));
  ZS_ASSIGN_OR_RETURN(block.fc_, first_of_branch(4 * width, /*gelu=*/true));
  ZS_ASSIGN_OR_RETURN(block.out_, last_of_branch(4 * width));
  return block;
}

void GptBlock::Forward(Stream& stream, std::span<const Array> parameters, const GptActivations& shared,
                       const BlockActivations& own) const {
  ForwardToMlp(stream, parameters, shared, own);
  fc_.ForwardGelu(stream, shared.y, parameters[kFcWeight], parameters[kFcBias], own.fc, shared.gelu);
  out_.Forward(stream, shared.gelu, parameters[kOutWeight], parameters[kOutBias], shared.residual);
}

void GptBlock::Recompute(Stream& stream, std::span<const Array> parameters, const GptActivations& shared,
                         const BlockActivations& own) const {
  ForwardToMlp(stream, parameters, shared, own);
  fc_.ForwardGeluInput(stream, shared.y, parameters[kFcWeight], parameters[kFcBias], own.fc, shared.gelu);
}

void GptBlock::ForwardToMlp(Stream& stream, std::span<const Array> parameters, const GptActivations& shared,
                            const BlockActivations& own) const {
  const auto& p = parameters;
  device::TransformerKernels& kernels = stream.device().transformer();
  kernels.LayerNorm(stream, shared.residual, p[kNorm1Weight], p[kNorm1Bias], own.norm_1.normalized,
                    own.norm_1.inverse_deviation, shared.y);
  qkv_.Forward(stream, shared.y, p[kQkvWeight], p[kQkvBias], own.qkv);
  attention_->Forward(stream, own.qkv, own.attention, own.log_sum_exp, shared.workspace);
  proj_.Forward(stream, own.attention, p[kProjWeight], p[kProjBias], shared.residual);

  kernels.LayerNorm(stream, shared.residual, p[kNorm2Weight], p[kNorm2Bias], own.norm_2.normalized,
                    own.norm_2.inverse_deviation, shared.y);
}

void GptBlock::Backward(Stream& stream, std::span<const Array> parameters, std::span<const GradientTarget> targets,
                        const GptActivations& shared, const BlockActivations& own) const {
  BackwardMlp(stream, parameters, targets, shared, own);
  BackwardAttention(stream, parameters, targets, shared, own);
}

void GptBlock::BackwardMlp(Stream& stream, std::span<const Array> parameters, std::span<const GradientTarget> targets,
                           const GptActivations& shared, const BlockActivations& own) const {
  out_.InputGradient(stream, shared.rounded_d_residual, parameters[kOutWeight], shared.d_fc);
  // From here on own.fc is GELU's output, which the gradient of `out` wants.
  stream.device().transformer().GeluBackward(stream, own.fc, shared.d_fc, shared.gelu_partials, 4 * width_);
  WriteWeightGradient(stream, out_, shared.rounded_d_residual, own.fc, targets[kOutWeight]);
  WriteRowSums(stream, {{shared.partials.d_x, targets[kOutBias]}, {shared.gelu_partials, targets[kFcBias]}});
  fc_.InputGradient(stream, shared.d_fc, parameters[kFcWeight], shared.d_y);
  BackwardNorm(stream, parameters[kNorm2Weight], parameters[kNorm2Bias], own.norm_2, shared, targets[kFcWeight]);
  WriteWeightGradient(stream, fc_, shared.d_fc, shared.y, targets[kFcWeight]);
  WriteRowSums(stream, {{shared.partials.weight, targets[kNorm2Weight]},
                        {shared.partials.bias, targets[kNorm2Bias]},
                        {shared.partials.d_x, targets[kProjBias]}});
}

void GptBlock::BackwardAttention(Stream& stream, std::span<const Array> parameters, std::span<const GradientTarget> targets,
                                 const GptActivations& shared, const BlockActivations& own) const {
  WriteWeightGradient(stream, proj_, shared.rounded_d_residual, own.attention, targets[kProjWeight]);
  proj_.InputGradient(stream, shared.rounded_d_residual, parameters[kProjWeight], shared.d_attention);
  attention_->Backward(stream, own.qkv, own.attention, own.log_sum_exp, shared.d_attention, shared.d_qkv, shared.workspace);
  WriteRowSums(stream, {{shared.d_qkv, targets[kQkvBias]}});
  qkv_.InputGradient(stream, shared.d_qkv, parameters[kQkvWeight], shared.d_y);
  BackwardNorm(stream, parameters[kNorm1Weight], parameters[kNorm1Bias], own.norm_1, shared, targets[kQkvWeight]);
  WriteWeightGradient(stream, qkv_, shared.d_qkv, shared.y, targets[kQkvWeight]);
  WriteRowSums(stream, {{shared.partials.weight, targets[kNorm1Weight]}, {shared.partials.bias, targets[kNorm1Bias]}});
}

}  // namespace zeroshard::model

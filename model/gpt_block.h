// One pre-norm block of a GPT-2: x += proj(attention(norm_1(x))), x += out(GELU(fc(norm_2(x)))), forward and backward.
//
// All blocks of a model share one GptBlock (its plans); what differs is the BlockActivations handed in.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(GptBlock block, GptBlock::Plan(device, options));
//   block.Forward(stream, parameters, activations, activations.blocks[layer]);
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "zeroshard/device/device.h"
#include "zeroshard/model/gpt_activations.h"
#include "zeroshard/model/gpt_options.h"
#include "zeroshard/model/gradient_target.h"
#include "zeroshard/model/linear.h"

namespace zeroshard::model {

class GptBlock {
 public:
  // Errors: as Device::PlanGemm and PlanAttention.
  static absl::StatusOr<GptBlock> Plan(device::Device& device, const GptOptions& options);

  int64_t attention_workspace_bytes() const { return attention_->workspace_bytes(); }

  // Adds the block's two branches to shared.residual. `parameters`: the unit's, in its order.
  void Forward(device::Stream& stream, std::span<const device::Array> parameters, const GptActivations& shared,
               const BlockActivations& own) const;

  // What Forward leaves in `own`, again, from shared.residual; the rest of Forward, which only the next unit wants, is not run.
  // shared.gelu is scratch.
  void Recompute(device::Stream& stream, std::span<const device::Array> parameters, const GptActivations& shared,
                 const BlockActivations& own) const;

  // shared.d_residual goes from the gradient of the block's output to that of its input, and shared.partials.d_x with it.
  void Backward(device::Stream& stream, std::span<const device::Array> parameters, std::span<const GradientTarget> targets,
                const GptActivations& shared, const BlockActivations& own) const;

 private:
  // Forward as far as shared.y, the input of the second branch's first product.
  void ForwardToMlp(device::Stream& stream, std::span<const device::Array> parameters, const GptActivations& shared,
                    const BlockActivations& own) const;
  // The halves of Backward.
  void BackwardMlp(device::Stream& stream, std::span<const device::Array> parameters,
                   std::span<const GradientTarget> targets, const GptActivations& shared, const BlockActivations& own) const;
  void BackwardAttention(device::Stream& stream, std::span<const device::Array> parameters,
                         std::span<const GradientTarget> targets, const GptActivations& shared,
                         const BlockActivations& own) const;

  int64_t width_ = 0;
  std::unique_ptr<device::Attention> attention_;
  Linear qkv_, proj_, fc_, out_;
};

}  // namespace zeroshard::model

// GPT-2 as units with an explicit forward and backward: learned positions, pre-norm blocks, GELU (tanh), a tied or untied head.
//
// A Gpt owns the activations of one micro-batch on one rank, and no parameter: whoever calls hands in a unit's parameters (full,
// in the order of its UnitSpec) and takes its gradients, so that ZeRO may gather and drop them in between. All memory and all
// products are planned in Create; a micro-batch allocates nothing. Everything is queued on the caller's stream, one stream for all
// calls of a micro-batch; nothing but BeginMicroBatch ever waits.
//
// The bits of a unit's forward and backward depend on the options, the tokens, the build and the number of threads; not on who
// holds the parameters, nor where.
//
// Note: Rows. A micro-batch has options.batch rows (sequences) at most. Fewer, or none, run the same products on padded rows,
// whose targets are kNoTarget: they add nothing to the loss, and exact zeros to gradients.
//
// Example: one micro-batch.
//   ZS_RETURN_IF_ERROR(gpt->BeginMicroBatch(stream, {.inputs = x, .targets = y, .rows = 4, .gradient_scale = 1.0 / tokens}));
//   for (const auto& [u, pass] : gpt->passes()) {  // TrainingPasses(units)
//     if (pass == Pass::kForward) ZS_RETURN_IF_ERROR(gpt->Forward(stream, u, parameters[u]));
//     if (pass == Pass::kRecompute) ZS_RETURN_IF_ERROR(gpt->Recompute(stream, u, parameters[u]));
//     if (pass == Pass::kBackward) ZS_RETURN_IF_ERROR(gpt->Backward(stream, u, parameters[u], targets[u]));
//   }
//   device.CopyToHost(stream, gpt->loss_sum(), &loss);  // of gpt->target_tokens() tokens
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/device/device.h"
#include "zeroshard/model/gpt_options.h"
#include "zeroshard/model/gradient_target.h"
#include "zeroshard/model/micro_batch.h"
#include "zeroshard/model/unit.h"
#include "zeroshard/model/unit_pass.h"

namespace zeroshard::model {

class Gpt {
 public:
  // Plans and allocates for `device`, which outlives it; the bytes are filed (and predicted) under Use::kActivations, in its ledger
  // and, with checkpoints_on_host, its host's.
  // Errors: kInvalidArgument as ValidateGptOptions; kResourceExhausted.
  static absl::StatusOr<std::unique_ptr<Gpt>> Create(device::Device& device, const GptOptions& options);
  ~Gpt();
  Gpt(const Gpt&) = delete;
  Gpt& operator=(const Gpt&) = delete;

  const GptOptions& options() const;
  const std::vector<UnitSpec>& units() const;
  // What a training micro-batch runs, in order: TrainingPasses(units()). Other purposes run the forward passes of it.
  const std::vector<UnitPass>& passes() const;
  int64_t activation_bytes() const;  // of the device

  // Takes the tokens (copied before it returns: the spans may be dropped). Any micro-batch that was under way is abandoned.
  // Waits for the copy of two micro-batches before. Errors: kInvalidArgument for rows, sizes, or a token, naming where it is.
  absl::Status BeginMicroBatch(device::Stream& stream, const MicroBatch& micro_batch);

  // The next of passes(). `parameters`: the unit's, full, in its order.
  // Errors: kFailedPrecondition for a unit out of turn; kInvalidArgument for parameters of another number, size or dtype.
  absl::Status Forward(device::Stream& stream, int unit, std::span<const device::Array> parameters);

  // The unit's forward once more, for backward's sake: of a group of which only the input was kept. Errors: as Forward.
  absl::Status Recompute(device::Stream& stream, int unit, std::span<const device::Array> parameters);

  // The last block of such a group runs its own forward again first. A unit that says so in backward_reads_parameters == false takes empty
  // `parameters`. `targets`: one for each parameter; an empty array is not computed. A tied matrix has two targets, the head's
  // first: the embedding's then says `accumulate`. Errors: as Forward.
  absl::Status Backward(device::Stream& stream, int unit, std::span<const device::Array> parameters,
                        std::span<const GradientTarget> targets);

  // Sum of the losses (natural logarithm) of this micro-batch's target tokens, fp64 [1], summed in fp64 token by token. The next
  // micro-batch overwrites it.
  device::Array loss_sum() const;
  // Targets of this micro-batch that are not kNoTarget.
  int64_t target_tokens() const;

  // After Forward of the head in Purpose::kSample: the logits, fp32 [vocab], of the token after `position` of sequence `row`.
  // `parameters`: the head's. Errors: kInvalidArgument for row or position; kFailedPrecondition for another purpose or too early.
  absl::Status Logits(device::Stream& stream, std::span<const device::Array> parameters, int64_t row, int64_t position,
                      device::Out logits);

 private:
  struct Parts;
  explicit Gpt(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace zeroshard::model

#include "zeroshard/model/gpt.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/model/activation_checkpoints.h"
#include "zeroshard/model/gpt_activations.h"
#include "zeroshard/model/gpt_block.h"
#include "zeroshard/model/gpt_head.h"
#include "zeroshard/model/gradient_writer.h"
#include "zeroshard/model/token_stage.h"

namespace zeroshard::model {
namespace {

using device::Array;
using device::Stream;

// The embedding's parameters, in order.
enum EmbeddingParameter { kTokens, kPositions };

std::string Name(UnitPass at) {
  constexpr const char* kNames[] = {"forward", "recomputation", "backward"};
  return absl::StrCat(kNames[static_cast<int>(at.pass)], " of unit ", at.unit);
}

absl::Status CheckLossScale(const Array& scale) {
  if (scale.empty() || (scale.elements() == 1 && scale.dtype() == device::DType::kFloat32)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a loss scale is fp32 [1], not ", scale.elements(), " of ", std::string(device::Name(scale.dtype()))));
}

}  // namespace

struct Gpt::Parts {
  GptOptions options;
  std::vector<UnitSpec> units;
  std::vector<std::vector<int64_t>> elements;  // of each unit's parameters
  GptBlock block;
  GptHead head;
  GptActivations activations;
  std::unique_ptr<ActivationCheckpoints> checkpoints;
  TokenStage tokens;
  int64_t activation_bytes = 0;

  // The micro-batch runs passes [0, end); it is at `next`.
  std::vector<UnitPass> passes;
  size_t next = 0;
  size_t end = 0;
  Purpose purpose = Purpose::kTrain;
  LossScaling scaling;

  int last_unit() const { return static_cast<int>(units.size()) - 1; }
  std::string Place() const;
  absl::Status CheckTurn(UnitPass wanted) const;
  absl::Status CheckParameters(int unit, std::span<const Array> parameters) const;
  absl::Status CheckTargets(int unit, std::span<const GradientTarget> targets) const;
  const BlockActivations& own(int unit) const { return activations.blocks[groups().PlaceOf(unit - 1)]; }
  CheckpointGroups groups() const { return GroupsOf(options); }
  // Before the forward of a block, before it runs again.
  void KeepInput(Stream& stream, int unit) const;
  void RestoreInput(Stream& stream, int unit) const;
  void BlockBackward(Stream& stream, int unit, std::span<const Array> parameters,
                     std::span<const GradientTarget> targets) const;
  void EmbeddingBackward(Stream& stream, std::span<const GradientTarget> targets) const;
};

std::string Gpt::Parts::Place() const {
  if (end == 0) return "there is no micro-batch";
  if (next < end) return absl::StrCat("the micro-batch is at ", Name(passes[next]));
  return absl::StrCat("the micro-batch has ended",
                      purpose == Purpose::kTrain ? "" : " with forward: it is not for training");
}

absl::Status Gpt::Parts::CheckTurn(UnitPass wanted) const {
  if (next < end && passes[next] == wanted) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(Name(wanted), " out of turn: ", Place()));
}

absl::Status Gpt::Parts::CheckParameters(int unit, std::span<const Array> parameters) const {
  const UnitSpec& spec = units[unit];
  if (parameters.size() != spec.parameters.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("unit ", spec.name, " has ", spec.parameters.size(), " parameters, not ", parameters.size()));
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].elements() == elements[unit][i] && parameters[i].dtype() == options.dtype) continue;
    return absl::InvalidArgumentError(absl::StrCat(spec.parameters[i].name, ": ", parameters[i].elements(), " elements of ",
                                                   std::string(device::Name(parameters[i].dtype())), " in place of ",
                                                   elements[unit][i], " of ", std::string(device::Name(options.dtype))));
  }
  return absl::OkStatus();
}

absl::Status Gpt::Parts::CheckTargets(int unit, std::span<const GradientTarget> targets) const {
  const UnitSpec& spec = units[unit];
  if (targets.size() != spec.parameters.size()) {
    return absl::InvalidArgumentError(absl::StrCat("unit ", spec.name, " has ", spec.parameters.size(), " parameters, not ",
                                                   targets.size(), " gradient targets"));
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    const Array& array = targets[i].array;
    if (array.empty() || (array.elements() == elements[unit][i] && array.dtype() == options.gradient_dtype)) continue;
    return absl::InvalidArgumentError(absl::StrCat("gradient of ", spec.parameters[i].name, ": ", array.elements(),
                                                   " elements of ", std::string(device::Name(array.dtype())),
                                                   " in place of ", elements[unit][i], " of ",
                                                   std::string(device::Name(options.gradient_dtype))));
  }
  return absl::OkStatus();
}

void Gpt::Parts::KeepInput(Stream& stream, int unit) const {
  const int64_t layer = unit - 1;
  if (purpose != Purpose::kTrain || !groups().RunsAgain(layer) || !groups().IsFirst(layer)) return;
  checkpoints->Keep(stream, groups().GroupOf(layer), activations.residual);
}

void Gpt::Parts::RestoreInput(Stream& stream, int unit) const {
  const int64_t layer = unit - 1;
  if (groups().IsFirst(layer)) checkpoints->Restore(stream, groups().GroupOf(layer), activations.residual);
}

void Gpt::Parts::BlockBackward(Stream& stream, int unit, std::span<const Array> parameters,
                               std::span<const GradientTarget> targets) const {
  if (groups().RunsAgain(unit - 1) && groups().IsLast(unit - 1)) {
    RestoreInput(stream, unit);
    block.Recompute(stream, parameters, activations, own(unit));
  }
  block.Backward(stream, parameters, targets, activations, own(unit));
}

void Gpt::Parts::EmbeddingBackward(Stream& stream, std::span<const GradientTarget> targets) const {
  device::TransformerKernels& kernels = stream.device().transformer();
  const GradientTarget &tokens_target = targets[kTokens], &positions_target = targets[kPositions];
  if (!tokens_target.array.empty()) {
    kernels.EmbedTokensBackward(stream, activations.inputs, activations.d_residual, tokens_target.array,
                                ModeOf(tokens_target));
  }
  if (!positions_target.array.empty()) {
    kernels.EmbedPositionsBackward(stream, activations.d_residual, positions_target.array, ModeOf(positions_target));
  }
}

absl::StatusOr<std::unique_ptr<Gpt>> Gpt::Create(device::Device& device, const GptOptions& options) {
  auto parts = std::make_unique<Parts>();
  ZS_ASSIGN_OR_RETURN(parts->units, GptUnits(options));
  parts->passes = TrainingPasses(parts->units);
  parts->options = options;
  for (const UnitSpec& unit : parts->units) {
    std::vector<int64_t>& elements = parts->elements.emplace_back();
    for (const ParameterSpec& parameter : unit.parameters) elements.push_back(Elements(parameter));
  }
  // The products' own scratch is found only by planning them.
  const int64_t before = device.ledger().now(device::Use::kActivations);
  ZS_ASSIGN_OR_RETURN(parts->block, GptBlock::Plan(device, options));
  ZS_ASSIGN_OR_RETURN(parts->head, GptHead::Plan(device, options));
  const int64_t plans = device.ledger().now(device::Use::kActivations) - before;
  const int64_t workspace = parts->block.attention_workspace_bytes();
  const device::LossBlocks blocks = device.transformer().loss_blocks(options.dtype);
  parts->activation_bytes = plans + GptActivations::Bytes(options, blocks, workspace) + TokenStage::Bytes(options) +
                            ActivationCheckpoints::DeviceBytes(options);
  device.ledger().Predict(device::Use::kActivations, parts->activation_bytes);
  device.host().ledger().Predict(device::Use::kActivations, ActivationCheckpoints::HostBytes(options));
  ZS_ASSIGN_OR_RETURN(parts->activations, GptActivations::Allocate(device, options, workspace));
  ZS_ASSIGN_OR_RETURN(parts->checkpoints, ActivationCheckpoints::Allocate(device, options));
  ZS_ASSIGN_OR_RETURN(parts->tokens, TokenStage::Allocate(device, options));
  return std::unique_ptr<Gpt>(new Gpt(std::move(parts)));
}

Gpt::Gpt(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Gpt::~Gpt() = default;

const GptOptions& Gpt::options() const { return parts_->options; }
const std::vector<UnitSpec>& Gpt::units() const { return parts_->units; }
const std::vector<UnitPass>& Gpt::passes() const { return parts_->passes; }
int64_t Gpt::activation_bytes() const { return parts_->activation_bytes; }
Array Gpt::loss_sum() const { return parts_->activations.loss; }
int64_t Gpt::target_tokens() const { return parts_->tokens.target_tokens(); }

absl::Status Gpt::BeginMicroBatch(Stream& stream, const MicroBatch& micro_batch) {
  Parts& p = *parts_;
  ZS_RETURN_IF_ERROR(CheckLossScale(micro_batch.loss_scale));
  ZS_RETURN_IF_ERROR(p.tokens.Copy(stream, micro_batch, p.activations.inputs, p.activations.targets));
  p.purpose = micro_batch.purpose;
  p.next = 0;
  p.end = p.purpose == Purpose::kTrain ? p.passes.size() : p.units.size();
  p.scaling = {.factor = static_cast<float>(micro_batch.gradient_scale), .on_device = micro_batch.loss_scale};
  return absl::OkStatus();
}

absl::Status Gpt::Forward(Stream& stream, int unit, std::span<const Array> parameters) {
  Parts& p = *parts_;
  const GptActivations& a = p.activations;
  ZS_RETURN_IF_ERROR(p.CheckTurn({unit, Pass::kForward}));
  ZS_RETURN_IF_ERROR(p.CheckParameters(unit, parameters));
  if (unit == 0) {
    stream.device().transformer().Embed(stream, a.inputs, parameters[kTokens], parameters[kPositions], a.residual);
  } else if (unit < p.last_unit()) {
    p.KeepInput(stream, unit);
    p.block.Forward(stream, parameters, a, p.own(unit));
  } else {
    p.head.Forward(stream, parameters, a);
    if (p.purpose == Purpose::kEvaluate) p.head.Loss(stream, parameters, a);
  }
  ++p.next;
  return absl::OkStatus();
}

absl::Status Gpt::Recompute(Stream& stream, int unit, std::span<const Array> parameters) {
  Parts& p = *parts_;
  ZS_RETURN_IF_ERROR(p.CheckTurn({unit, Pass::kRecompute}));
  ZS_RETURN_IF_ERROR(p.CheckParameters(unit, parameters));
  p.RestoreInput(stream, unit);
  p.block.Forward(stream, parameters, p.activations, p.own(unit));
  ++p.next;
  return absl::OkStatus();
}

absl::Status Gpt::Backward(Stream& stream, int unit, std::span<const Array> parameters,
                           std::span<const GradientTarget> targets) {
  Parts& p = *parts_;
  ZS_RETURN_IF_ERROR(p.CheckTurn({unit, Pass::kBackward}));
  if (p.units[unit].backward_reads_parameters) ZS_RETURN_IF_ERROR(p.CheckParameters(unit, parameters));
  ZS_RETURN_IF_ERROR(p.CheckTargets(unit, targets));
  if (unit == p.last_unit()) {
    p.checkpoints->BeginBackward();
    p.head.LossAndBackward(stream, parameters, targets, p.activations, p.scaling);
  } else if (unit > 0) {
    p.BlockBackward(stream, unit, parameters, targets);
  } else {
    p.EmbeddingBackward(stream, targets);
  }
  ++p.next;
  return absl::OkStatus();
}

absl::Status Gpt::Logits(Stream& stream, std::span<const Array> parameters, int64_t row, int64_t position,
                         device::Out logits) {
  Parts& p = *parts_;
  if (p.purpose != Purpose::kSample || p.end == 0 || p.next < p.end) {
    return absl::FailedPreconditionError(
        absl::StrCat("logits are there after forward of the head in a micro-batch for sampling: ", p.Place()));
  }
  if (row < 0 || row >= p.options.batch || position < 0 || position >= p.options.context) {
    return absl::InvalidArgumentError(absl::StrCat("logits of row ", row, ", position ", position, ": there are ",
                                                   p.options.batch, " rows of ", p.options.context, " positions"));
  }
  ZS_RETURN_IF_ERROR(p.CheckParameters(p.last_unit(), parameters));
  if (logits.array.elements() != p.options.vocab || logits.array.dtype() != device::DType::kFloat32) {
    return absl::InvalidArgumentError(absl::StrCat("logits take fp32 [", p.options.vocab, "], not ", logits.array.elements(),
                                                   " of ", std::string(device::Name(logits.array.dtype()))));
  }
  p.head.Logits(stream, parameters, p.activations, row * p.options.context + position, logits);
  return absl::OkStatus();
}

}  // namespace zeroshard::model

#include "zeroshard/zero/engine.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/memory_ledger.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/zero/agreement.h"
#include "zeroshard/zero/engine_parts.h"
#include "zeroshard/zero/formulas.h"
#include "zeroshard/zero/gather_plan.h"
#include "zeroshard/zero/world_check.h"

namespace zeroshard::zero {
namespace {

absl::Status CheckGroups(const std::vector<model::UnitSpec>& units, const EngineOptions& options) {
  const int groups = static_cast<int>(options.optimizer.groups.size());
  for (const model::UnitSpec& unit : units) {
    for (const model::ParameterSpec& parameter : unit.parameters) {
      if (parameter.group >= 0 && parameter.group < groups) continue;
      return absl::InvalidArgumentError(absl::StrCat("parameter ", parameter.name, " is of group ", parameter.group,
                                                     "; the optimizer has groups 0 to ", groups - 1));
    }
  }
  return absl::OkStatus();
}

void Predict(device::MemoryLedger& ledger, const MemoryBytes& bytes) {
  ledger.Predict(device::Use::kParameters, bytes.parameters);
  ledger.Predict(device::Use::kGradients, bytes.gradients);
  ledger.Predict(device::Use::kMasterWeights, bytes.master_weights);
  ledger.Predict(device::Use::kMoments, bytes.moments);
  ledger.Predict(device::Use::kCommunication, bytes.communication);
}

}  // namespace

Engine::Engine(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

// Memory is given back when nothing that was queued uses it any more, whether or not the step was ended.
Engine::~Engine() {
  if (parts_->parameters != nullptr) parts_->parameters->Settle();
  if (parts_->gradients != nullptr) parts_->gradients->BeginStep();
  parts_->compute->Synchronize();
}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(comm::Communicator& communicator, std::vector<model::UnitSpec> units,
                                                       const EngineOptions& options) {
  ZS_RETURN_IF_ERROR(Validate(options));
  ZS_RETURN_IF_ERROR(CheckWorld(options, communicator.world_size()));
  if (options.world_invariant && !communicator.sums_by_tree()) {
    return absl::InvalidArgumentError(
        "world_invariant over a communicator whose sums do not follow the tree over ranks; take --reduction=tree");
  }
  ZS_RETURN_IF_ERROR(CheckGroups(units, options));
  ZS_ASSIGN_OR_RETURN(Layout layout, Layout::Create(units, LayoutOptionsOf(options, communicator.world_size())));
  ZS_RETURN_IF_ERROR(CheckLiveParameters(layout, options));
  std::unique_ptr<Engine> engine(new Engine(
      std::unique_ptr<Parts>(new Parts{.communicator = &communicator, .options = options, .layout = std::move(layout)})));
  Parts& p = *engine->parts_;
  device::Device& device = communicator.device();
  p.compute = device.MakeStream(device::StreamKind::kCompute);
  ZS_RETURN_IF_ERROR(CheckAgreement(communicator, p.layout, p.options, *p.compute));
  ZS_ASSIGN_OR_RETURN(p.ranks, RankGroups::Create(communicator, p.options));
  Predict(device.ledger(), PredictMemory(p.layout, p.options, communicator.rank()));
  if (Offloads(options)) Predict(device.host().ledger(), PredictHostMemory(p.layout, p.options, communicator.rank()));
  ZS_ASSIGN_OR_RETURN(p.parameters, ParameterStore::Create(p.ranks->shard(), p.layout, p.options, *p.compute));
  ZS_ASSIGN_OR_RETURN(p.gradients, GradientStore::Create(*p.ranks, p.layout, p.options, *p.compute));
  ZS_ASSIGN_OR_RETURN(p.step_end, StepEnd::Create(*p.ranks, p.layout, p.options, *p.compute));
  ZS_ASSIGN_OR_RETURN(p.tensors, TensorAccess::Create(*p.ranks, p.layout, p.options, *p.compute));
  ZS_ASSIGN_OR_RETURN(p.minimum, RankMinimum::Create(communicator, *p.compute));
  p.frozen.resize(p.layout.parameters().size());
  for (size_t i = 0; i < p.frozen.size(); ++i) {
    const model::ParameterSpec& spec = p.layout.parameters()[i].spec;
    if (spec.trainable && spec.frozen) p.Freeze(static_cast<int>(i), true);
  }
  return engine;
}

device::Stream& Engine::compute() { return *parts_->compute; }
const EngineOptions& Engine::options() const { return parts_->options; }
const Layout& Engine::layout() const { return parts_->layout; }
device::Array Engine::loss_scale() const { return parts_->step_end->loss_scale(); }
int64_t Engine::reductions() const { return parts_->gradients->reductions(); }

absl::Status Engine::Parts::CheckUnit(int unit) const {
  const int units = static_cast<int>(layout.units().size());
  if (unit >= 0 && unit < units) return communicator->status();
  return absl::InvalidArgumentError(absl::StrCat("unit ", unit, "; the model has units 0 to ", units - 1));
}

absl::Status Engine::Parts::CheckResharded(std::string_view call) const {
  const int unit = parameters->AnyUnsharded();
  if (unit < 0) return communicator->status();
  return absl::FailedPreconditionError(absl::StrCat(std::string(call), " while unit ", layout.units()[unit].name,
                                                    " is unsharded; call Reshard or Abandon first"));
}

absl::Status Engine::Unshard(int unit, Pass pass) {
  ZS_RETURN_IF_ERROR(parts_->CheckUnit(unit));
  return parts_->parameters->Unshard(unit, pass);
}

absl::Status Engine::Reshard(int unit) {
  ZS_RETURN_IF_ERROR(parts_->CheckUnit(unit));
  return parts_->parameters->Reshard(unit);
}

absl::StatusOr<std::span<const device::Array>> Engine::parameters(int unit) {
  ZS_RETURN_IF_ERROR(parts_->CheckUnit(unit));
  return parts_->parameters->parameters(unit);
}

absl::StatusOr<std::span<const model::GradientTarget>> Engine::gradients(int unit) {
  ZS_RETURN_IF_ERROR(parts_->CheckUnit(unit));
  const ParameterStore& store = *parts_->parameters;
  if (!store.IsUnsharded(unit) || store.pass(unit) != Pass::kBackward) {
    return absl::FailedPreconditionError(absl::StrCat("gradients of unit ", parts_->layout.units()[unit].name,
                                                      ", which is not unsharded for backward; call Unshard first"));
  }
  return parts_->gradients->Open(unit);
}

absl::Status Engine::GradientsReady(int unit) {
  ZS_RETURN_IF_ERROR(parts_->CheckUnit(unit));
  return parts_->gradients->Ready(unit);
}

absl::Status Engine::Step(const StepOptions& options) {
  Parts& p = *parts_;
  ZS_RETURN_IF_ERROR(p.CheckResharded("Step"));
  ZS_RETURN_IF_ERROR(p.gradients->Finish());
  p.parameters->BeginUpdate();
  ZS_RETURN_IF_ERROR(p.step_end->Run(*p.gradients, *p.parameters, options.learning_rate));
  p.parameters->EndUpdate(/*gather=*/true);
  p.gradients->BeginStep();
  return p.communicator->status();
}

absl::StatusOr<StepResult> Engine::Result() {
  ZS_ASSIGN_OR_RETURN(const device::StepScalars scalars, parts_->step_end->Result());
  return StepResult{.gradient_norm = scalars.norm,
                    .clip_factor = scalars.clip_factor,
                    .learning_rate = scalars.learning_rate,
                    .loss_scale = scalars.loss_scale,
                    .skipped = scalars.skip != 0,
                    .applied_steps = scalars.applied_steps,
                    .skipped_steps = scalars.skipped_steps,
                    .skipped_in_a_row = scalars.skipped_in_a_row,
                    .non_finite_blocks = scalars.non_finite_blocks};
}

absl::Status Engine::Barrier(std::string_view label) { return parts_->ranks->Barrier(label); }

absl::Status Engine::Abandon() {
  parts_->parameters->ReshardAll();
  parts_->gradients->BeginStep();
  return parts_->communicator->status();
}

}  // namespace zeroshard::zero

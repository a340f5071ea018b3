#include "zeroshard/zero/resident_update.h"

#include <utility>

#include "zeroshard/device/status_macros.h"
#include "zeroshard/zero/holding.h"
#include "zeroshard/zero/precision.h"

namespace zeroshard::zero {

using device::Array;

absl::StatusOr<std::unique_ptr<UpdatePass>> ResidentUpdate::Create(device::Device& device, const Layout& layout,
                                                                   const EngineOptions& options, int rank,
                                                                   device::Stream& compute) {
  std::unique_ptr<ResidentUpdate> pass(new ResidentUpdate(layout, options, rank, compute));
  if (PrecisionOf(options, layout.ranks()).has_masters()) {
    ZS_ASSIGN_OR_RETURN(pass->masters_, MasterWeights::Create(device, layout, options, rank));
    pass->names_.push_back(kMasterWeightsName);
  }
  const int64_t elements = StateElements(layout, options.stage, rank);
  ZS_ASSIGN_OR_RETURN(pass->optimizer_,
                      optim::Optimizer::Create(device, options.optimizer, elements, RunsOf(layout, pass->parts_)));
  for (const optim::StateTensor& state : pass->optimizer_->state()) pass->names_.push_back(state.name);
  return pass;
}

ResidentUpdate::ResidentUpdate(const Layout& layout, const EngineOptions& options, int rank, device::Stream& compute)
    : layout_(&layout),
      options_(&options),
      rank_(rank),
      compute_(&compute),
      parts_(PartsOf(layout, options.stage, rank)),
      sections_(BySection(parts_)) {}

absl::Status ResidentUpdate::AddSquares(const GradientStore& gradients, device::InOut sum) {
  for (const std::span<const Part>& parts : sections_) {
    AddSquaresOf(*compute_, parts, gradients.Held(parts.front().section), sum);
  }
  return absl::OkStatus();
}

absl::Status ResidentUpdate::Apply(const GradientStore& gradients, ParameterStore& parameters, device::In scalars) {
  for (const std::span<const Part>& parts : sections_) {
    const int section = parts.front().section;
    const Range hull = HullOf(parts);
    parameters.WrittenBefore(section);
    const auto slice = [&](const Array& held) { return held.Slice(hull.first, hull.count); };
    const Array parameter = slice(parameters.Held(section));
    ZS_RETURN_IF_ERROR(optimizer_->Apply(*compute_, {.first = parts.front().state_first,
                                                     .weights = masters_ ? slice(masters_->Held(section)) : parameter,
                                                     .gradients = slice(gradients.Held(section)),
                                                     .scalars = scalars.array,
                                                     .write_back = masters_ ? parameter : Array()}));
  }
  return absl::OkStatus();
}

void ResidentUpdate::SetFrozen(int parameter, bool frozen) {
  for (Part& part : parts_) {
    if (part.parameter != parameter) continue;
    part.frozen = frozen;
    optimizer_->SetFrozen(part.state_first, part.held.count, frozen);
  }
}

Array ResidentUpdate::StateOf(int state, int section, Range part) const {
  if (masters_ && state == 0) return masters_->Held(section).Slice(part.first, part.count);
  const Array all = optimizer_->state()[state - (masters_ ? 1 : 0)].array;
  return all.Slice(HoldingOf(*layout_, options_->stage, rank_, section).state_first + part.first, part.count);
}

absl::Status ResidentUpdate::ReadState(int state, int section, Range part, device::Out to) {
  compute_->device().elementwise().Copy(*compute_, StateOf(state, section, part), to);
  return absl::OkStatus();
}

absl::Status ResidentUpdate::WriteState(int state, int section, Range part, device::In from) {
  compute_->device().elementwise().Copy(*compute_, from, StateOf(state, section, part));
  return absl::OkStatus();
}

}  // namespace zeroshard::zero

// How an OffloadedUpdate is made: which parts are where, and all its memory.

#include <utility>

#include "zeroshard/device/exact_sum.h"
#include "zeroshard/device/memory_ledger.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/device/step_scalars.h"
#include "zeroshard/zero/offload/offloaded_update.h"

namespace zeroshard::zero {

using device::Array;
using device::DType;
using device::Use;

namespace {

// The part of `part` that lies in `range` of the state; count 0 if nothing does.
Part Cut(Part part, Range range) {
  const Range kept = Intersect({part.state_first, part.held.count}, range);
  part.held = {part.held.first + kept.first - part.state_first, kept.count};
  part.state_first = kept.first;
  return part;
}

}  // namespace

absl::StatusOr<std::unique_ptr<UpdatePass>> OffloadedUpdate::Create(device::Device& device, const Layout& layout,
                                                                    const EngineOptions& options, int rank,
                                                                    device::Stream& compute) {
  std::unique_ptr<OffloadedUpdate> pass(new OffloadedUpdate(device, layout, options, rank, compute));
  pass->CutParts(pass->parts_);
  ZS_RETURN_IF_ERROR(pass->AllocateResident());
  if (pass->plan_.groups > 0) ZS_RETURN_IF_ERROR(pass->AllocateOffloaded());
  return pass;
}

OffloadedUpdate::OffloadedUpdate(device::Device& device, const Layout& layout, const EngineOptions& options, int rank,
                                 device::Stream& compute)
    : device_(&device),
      host_(&device.host()),
      layout_(&layout),
      options_(&options),
      rank_(rank),
      compute_(&compute),
      precision_(PrecisionOf(options, layout.ranks())),
      plan_(OffloadPlanOf(layout, options, rank)),
      parts_(PartsOf(layout, options.stage, rank)),
      begun_(device.MakeEvent()),
      done_(device.MakeEvent()),
      down_(device.MakeStream(device::StreamKind::kCopyDown)),
      up_(device.MakeStream(device::StreamKind::kCopyUp)),
      cores_(host_->MakeStream(device::StreamKind::kCompute)) {
  if (precision_.has_masters()) names_.push_back(kMasterWeightsName);
  for (std::string_view name : optim::StateNames(options.optimizer)) names_.push_back(name);
}

void OffloadedUpdate::CutParts(const std::vector<Part>& parts) {
  for (const Part& part : parts) {
    const Part kept = Cut(part, {0, plan_.first});
    if (kept.held.count > 0) resident_parts_.push_back(kept);
  }
  sections_ = BySection(parts_);
  resident_sections_ = BySection(resident_parts_);
  auto next = parts.begin();
  for (int64_t group = 0; group < plan_.groups; ++group) {
    first_of_group_.push_back(offloaded_parts_.size());
    const Range range = plan_.Group(group);
    while (next != parts.end() && next->state_first + next->held.count <= range.first) ++next;
    for (auto part = next; part != parts.end() && part->state_first < range.end(); ++part) {
      offloaded_parts_.push_back(Cut(*part, range));
    }
  }
  first_of_group_.push_back(offloaded_parts_.size());
}

absl::Status OffloadedUpdate::AllocateResident() {
  const int64_t masters = precision_.has_masters() ? plan_.first * SizeOf(DType::kFloat32) : 0;
  ZS_ASSIGN_OR_RETURN(resident_masters_, device_->Allocate(masters, Use::kMasterWeights, "master weights"));
  ZS_ASSIGN_OR_RETURN(
      resident_, optim::Optimizer::Create(*device_, options_->optimizer, plan_.first, RunsOf(*layout_, resident_parts_)));
  return absl::OkStatus();
}

absl::Status OffloadedUpdate::AllocateOffloaded() {
  ZS_ASSIGN_OR_RETURN(offloaded_, optim::Optimizer::CreateWithoutState(*host_, options_->optimizer, plan_.elements,
                                                                       RunsOf(*layout_, offloaded_parts_)));
  const OffloadOptions& offload = options_->offload_optimizer;
  if (offload.target == OffloadTarget::kFile) {
    ZS_ASSIGN_OR_RETURN(tier_, MakeFileTier(*host_, plan_, offload.folder, device_));
  } else {
    ZS_ASSIGN_OR_RETURN(tier_, MakeHostTier(*host_, plan_, precision_.has_masters() ? 1 : 0));
  }
  ZS_RETURN_IF_ERROR(MakeSlots());
  MakeWritten();
  ZS_ASSIGN_OR_RETURN(thread_, HostThread::Create(device_));
  return absl::OkStatus();
}

void OffloadedUpdate::MakeWritten() {
  int before = 0;
  for (int64_t group = 0; group < plan_.groups; ++group) {
    const bool last = group + 1 == plan_.groups;
    const std::span<const Part> next = last ? std::span<const Part>() : PartsOfGroup(group + 1);
    const int first = last ? layout_->trainable_sections() : next.empty() ? before : next.front().section;
    if (first > before || last) written_.push_back({.group = group, .before = first, .event = device_->MakeEvent()});
    before = first;
  }
}

absl::Status OffloadedUpdate::MakeSlots() {
  const int64_t gradients = plan_.offloads_gradients ? 0 : plan_.group_elements * SizeOf(precision_.gradients);
  const bool in_tier = options_->offload_parameters.target != OffloadTarget::kNone;
  const int64_t parameters = in_tier ? 0 : plan_.group_elements * SizeOf(precision_.parameters);
  const int64_t slots = plan_.buffers * (gradients + parameters);
  const int64_t scalars = sizeof(device::StepScalars);
  const int64_t sum = device::kExactSumWords * SizeOf(DType::kInt64);
  ZS_ASSIGN_OR_RETURN(staging_,
                      host_->Allocate(slots + scalars + sum, Use::kCommunication, "sub-groups of offloaded updates"));
  const Array all = staging_.array(DType::kUint8);
  for (int64_t i = 0; i < plan_.buffers; ++i) {
    const int64_t first = i * (gradients + parameters);
    slots_.push_back({.gradients = all.Slice(first, gradients).As(precision_.gradients),
                      .parameters = all.Slice(first + gradients, parameters).As(precision_.parameters),
                      .down = device_->MakeEvent(),
                      .up = device_->MakeEvent()});
  }
  host_scalars_ = all.Slice(slots, scalars);
  host_sum_ = all.Slice(slots + scalars, sum).As(DType::kInt64);
  return absl::OkStatus();
}

}  // namespace zeroshard::zero

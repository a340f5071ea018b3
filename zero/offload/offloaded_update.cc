#include "zeroshard/zero/offload/offloaded_update.h"

#include <cstring>
#include <utility>

#include "zeroshard/device/pieces.h"
#include "zeroshard/device/scoped_span.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/device/step_scalars.h"
#include "zeroshard/zero/holding.h"

namespace zeroshard::zero {

using device::Array;
using device::DType;

namespace {

constexpr char kLabel[] = "sub-group";

}  // namespace

absl::Status OffloadedUpdate::AddSquares(const GradientStore& gradients, device::InOut sum) {
  gradients_ = &gradients;
  sum_ = sum.array;
  for (const std::span<const Part>& parts : plan_.offloads_gradients ? resident_sections_ : sections_) {
    AddSquaresOf(*compute_, parts, gradients.Held(parts.front().section), sum);
  }
  if (!plan_.offloads_gradients) return absl::OkStatus();
  compute_->Record(*begun_);
  done_->Expect();
  thread_->Post([](void* self, int64_t) { static_cast<OffloadedUpdate*>(self)->AddHostSquares(); }, this, 0);
  compute_->Wait(*done_);
  return absl::OkStatus();
}

// The words of what the device has added come down, and go up with the host's.
void OffloadedUpdate::AddHostSquares() {
  gradients_->host()->Drain();
  void* words = host_->HostAddress(host_sum_);
  down_->Wait(*begun_);
  device_->CopyToHost(*down_, sum_, words);
  down_->Synchronize();
  for (const Part& part : offloaded_parts_) {
    if (part.frozen) continue;
    const Array gradient = gradients_->host()->Of({part.state_first, part.held.count});
    host_->step().AddPowers(*cores_, gradient, device::OnePiece(part.held.count), 2, host_sum_);
  }
  device_->CopyFromHost(*up_, words, sum_);
  up_->Record(*done_);
}

absl::Status OffloadedUpdate::Apply(const GradientStore& gradients, ParameterStore& parameters, device::In scalars) {
  if (plan_.groups == 0) return ApplyResident(gradients, parameters, scalars);
  ZS_RETURN_IF_ERROR(error_.status());
  if (parameters.tier() != nullptr) ZS_RETURN_IF_ERROR(parameters.tier()->status());
  gradients_ = &gradients;
  parameters_ = &parameters;
  scalars_ = scalars.array;
  compute_->Record(*begun_);
  for (const Written& written : written_) written.event->Expect();
  thread_->Post([](void* self, int64_t) { static_cast<OffloadedUpdate*>(self)->Run(); }, this, 0);
  const absl::Status resident = ApplyResident(gradients, parameters, scalars);
  for (const Written& written : written_) {
    compute_->Wait(*written.event);
    parameters.WrittenBefore(written.before);
  }
  ZS_RETURN_IF_ERROR(resident);
  return error_.status();
}

absl::Status OffloadedUpdate::ApplyResident(const GradientStore& gradients, ParameterStore& parameters, device::In scalars) {
  const bool masters = precision_.has_masters();
  for (const std::span<const Part>& parts : resident_sections_) {
    const int section = parts.front().section;
    const int64_t first = parts.front().state_first;
    const Range hull = HullOf(parts);
    parameters.WrittenBefore(section);
    const Array parameter = parameters.Held(section).Slice(hull.first, hull.count);
    ZS_RETURN_IF_ERROR(resident_->Apply(
        *compute_, {.first = first,
                    .weights = masters ? resident_masters_.array(DType::kFloat32).Slice(first, hull.count) : parameter,
                    .gradients = gradients.Held(section).Slice(hull.first, hull.count),
                    .scalars = scalars.array,
                    .write_back = masters ? parameter : Array()}));
  }
  return absl::OkStatus();
}

void OffloadedUpdate::Run() {
  next_written_ = 0;
  error_.Keep(RunGroups());
  while (next_written_ < written_.size()) up_->Record(*written_[next_written_++].event);
}

// What the host has synchronised with needs no wait on the streams that it queues to afterwards.
absl::Status OffloadedUpdate::RunGroups() {
  device::StepScalars scalars;
  void* copy = host_->HostAddress(host_scalars_);
  down_->Wait(*begun_);
  device_->CopyToHost(*down_, scalars_, copy);
  down_->Synchronize();
  std::memcpy(&scalars, copy, sizeof(scalars));
  if (scalars.skip != 0) return absl::OkStatus();
  ZS_RETURN_IF_ERROR(Bring(0));
  for (int64_t group = 0; group < plan_.groups; ++group) {
    if (group + 1 < plan_.groups) ZS_RETURN_IF_ERROR(Bring(group + 1));
    ZS_RETURN_IF_ERROR(Update(group));
  }
  return parameters_->tier() == nullptr ? absl::OkStatus() : parameters_->tier()->Finish();
}

absl::Status OffloadedUpdate::Bring(int64_t group) {
  const Slot& slot = slots_[group % plan_.buffers];
  const Range range = plan_.Group(group);
  slot.up->Synchronize();
  ZS_RETURN_IF_ERROR(tier_->Fetch(group));
  ParameterTier* tier = parameters_->tier();
  // fp32 parameters are their own masters, and what is frozen is stored as it was.
  bool reads = !precision_.has_masters();
  for (const Part& part : PartsOfGroup(group)) reads = reads || part.frozen;
  if (tier != nullptr) ZS_RETURN_IF_ERROR(tier->Fetch(group, reads));
  const device::ScopedSpan span(*down_, device::SpanKind::kCopy, kLabel);
  for (const Part& part : PartsOfGroup(group)) {
    const auto down = [&](const Array& held, const Array& to) {
      device_->CopyToHost(*down_, held.Slice(part.held.first, part.held.count),
                          host_->HostAddress(to.Slice(part.state_first - range.first, part.held.count)));
    };
    if (!plan_.offloads_gradients) down(gradients_->Held(part.section), slot.gradients);
    if (tier == nullptr && !precision_.has_masters()) down(parameters_->Held(part.section), slot.parameters);
  }
  down_->Record(*slot.down);
  return absl::OkStatus();
}

absl::Status OffloadedUpdate::Update(int64_t group) {
  const Slot& slot = slots_[group % plan_.buffers];
  const Range range = plan_.Group(group);
  const bool masters = precision_.has_masters();
  ParameterTier* tier = parameters_->tier();
  slot.down->Synchronize();
  ZS_RETURN_IF_ERROR(tier_->Await(group));
  if (tier != nullptr) ZS_RETURN_IF_ERROR(tier->Await(group));
  const Array parameters = tier != nullptr ? tier->Of(group) : slot.parameters.Slice(0, range.count);
  optim::Update update{
      .first = range.first,
      .weights = masters ? tier_->Of(0, group) : parameters,
      .gradients = plan_.offloads_gradients ? gradients_->host()->Of(range) : slot.gradients.Slice(0, range.count),
      .scalars = host_scalars_,
      .write_back = masters ? parameters : Array()};
  const int first = masters ? 1 : 0;
  for (int state = first; state < plan_.states; ++state) update.state[state - first] = tier_->Of(state, group);
  ZS_RETURN_IF_ERROR(offloaded_->Apply(*cores_, update));
  tier_->Store(group);
  if (tier != nullptr) tier->Store(group);
  const device::ScopedSpan span(*up_, device::SpanKind::kCopy, kLabel);
  for (const Part& part : PartsOfGroup(group)) {
    if (part.frozen) continue;
    if (parameters_->Held(part.section).empty()) continue;  // it is in the tier alone
    device_->CopyFromHost(*up_, host_->HostAddress(parameters.Slice(part.state_first - range.first, part.held.count)),
                          parameters_->Held(part.section).Slice(part.held.first, part.held.count));
  }
  up_->Record(*slot.up);
  // The last one's is recorded when the tier is done too.
  if (group + 1 < plan_.groups && written_[next_written_].group == group) up_->Record(*written_[next_written_++].event);
  return absl::OkStatus();
}

void OffloadedUpdate::SetFrozen(int parameter, bool frozen) {
  for (std::vector<Part>* parts : {&parts_, &resident_parts_, &offloaded_parts_}) {
    for (Part& part : *parts) {
      if (part.parameter == parameter) part.frozen = frozen;
    }
  }
  for (const Part& part : resident_parts_) {
    if (part.parameter == parameter) resident_->SetFrozen(part.state_first, part.held.count, frozen);
  }
  if (offloaded_ == nullptr) return;
  for (const Part& part : offloaded_parts_) {
    if (part.parameter == parameter) offloaded_->SetFrozen(part.state_first, part.held.count, frozen);
  }
}

std::span<const Part> OffloadedUpdate::PartsOfGroup(int64_t group) const {
  const size_t first = first_of_group_[group];
  return std::span(offloaded_parts_).subspan(first, first_of_group_[group + 1] - first);
}

Range OffloadedUpdate::InState(int section, Range part) const {
  return {HoldingOf(*layout_, options_->stage, rank_, section).state_first + part.first, part.count};
}

Array OffloadedUpdate::Resident(int state, Range range) const {
  const int first = precision_.has_masters() ? 1 : 0;
  const Array all = state < first ? resident_masters_.array(DType::kFloat32) : resident_->state()[state - first].array;
  return all.Slice(range.first, range.count);
}

absl::Status OffloadedUpdate::ReadState(int state, int section, Range part, device::Out to) {
  const Range all = InState(section, part);
  const Range resident = Intersect(all, {0, plan_.first});
  if (resident.count > 0) {
    device_->elementwise().Copy(*compute_, Resident(state, resident), to.array.Slice(0, resident.count));
  }
  for (int64_t at = std::max(all.first, plan_.first); at < all.end();) {
    const Range piece = Intersect({at, all.end() - at}, plan_.Group(plan_.GroupOf(at)));
    ZS_ASSIGN_OR_RETURN(const Array memory, tier_->Open(state, piece));
    device_->CopyFromHost(*compute_, host_->HostAddress(memory), to.array.Slice(piece.first - all.first, piece.count));
    compute_->Synchronize();
    ZS_RETURN_IF_ERROR(tier_->Close(/*written=*/false));
    at = piece.end();
  }
  return absl::OkStatus();
}

absl::Status OffloadedUpdate::WriteState(int state, int section, Range part, device::In from) {
  const Range all = InState(section, part);
  const Range resident = Intersect(all, {0, plan_.first});
  if (resident.count > 0) {
    device_->elementwise().Copy(*compute_, from.array.Slice(0, resident.count), Resident(state, resident));
  }
  for (int64_t at = std::max(all.first, plan_.first); at < all.end();) {
    const Range piece = Intersect({at, all.end() - at}, plan_.Group(plan_.GroupOf(at)));
    ZS_ASSIGN_OR_RETURN(const Array memory, tier_->Open(state, piece));
    device_->CopyToHost(*compute_, from.array.Slice(piece.first - all.first, piece.count), host_->HostAddress(memory));
    compute_->Synchronize();
    ZS_RETURN_IF_ERROR(tier_->Close(/*written=*/true));
    at = piece.end();
  }
  return absl::OkStatus();
}

}  // namespace zeroshard::zero

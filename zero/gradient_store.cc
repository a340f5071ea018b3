#include "zeroshard/zero/gradient_store.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/pieces.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/zero/holding.h"

namespace zeroshard::zero {

absl::Status GradientStore::CheckOpen(int unit) const {
  const UnitLayout& layout = layout_->units()[unit];
  if (finished_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "backward of unit ", layout.name, " after this step's gradients were reduced; call Step or Abandon first"));
  }
  if (units_[unit].opened < int64_t{layout.uses} * options_->accumulation) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("backward of unit ", layout.name, " for the ", units_[unit].opened + 1,
                                                    "th time in a step of accumulation = ", options_->accumulation,
                                                    ", uses = ", layout.uses,
                                                    "; call Step or Abandon first, or raise one of them"));
}

absl::StatusOr<std::span<const model::GradientTarget>> GradientStore::Open(int unit) {
  Unit& u = units_[unit];
  if (!u.open) {
    ZS_RETURN_IF_ERROR(CheckOpen(unit));
    for (int s : layout_->units()[unit].sections) {
      if (layout_->sections()[s].trainable) ZS_RETURN_IF_ERROR(OpenSection(unit, s));
    }
    FillTargets(unit);
    u.open = true;
    ++u.opened;
  }
  return std::span<const model::GradientTarget>(u.targets);
}

absl::Status GradientStore::OpenSection(int unit, int section) {
  SectionState& s = sections_[section];
  const bool first_of_cycle = s.opened % s.cycle == 0;
  if (first_of_cycle && !trees_.empty() && s.flight != nullptr && s.flight->Holds(section)) s.flight->Settle();
  if (ShardsGradients(options_->stage) && first_of_cycle) {
    if (s.ready != s.opened) {
      return absl::FailedPreconditionError(
          absl::StrCat("backward of unit ", layout_->units()[unit].name, " begins while ", layout_->sections()[section].name,
                       " has gradients of the last micro-batch under way; call GradientsReady"));
    }
    if (layout_->sections()[section].alone()) {
      s.flight->Land();
    } else {
      // The unit's sections go together: the first has room for all of them made.
      const bool begins = layout_->units()[unit].sections.front() == section;
      const int64_t elements = begins ? layout_->OwnTrainableElements(unit) : layout_->sections()[section].elements;
      ZS_ASSIGN_OR_RETURN(s.flight, FlightFor(unit, elements));
    }
    s.gradient = s.flight->Place(section);
  }
  ++s.opened;
  return absl::OkStatus();
}

absl::StatusOr<Flight*> GradientStore::FlightFor(int unit, int64_t elements) {
  if (flights_[current_]->Fits(elements)) return flights_[current_].get();
  flights_[current_]->Flush();
  current_ = (current_ + 1) % slots_;
  Flight* next = flights_[current_].get();
  if (next->open() > 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("no memory for the gradients of unit ", layout_->units()[unit].name,
                     ": too many units are in backward at once; call GradientsReady for those that are done"));
  }
  next->Flush();
  next->Land();
  return next;
}

void GradientStore::FillTargets(int unit) {
  const UnitLayout& layout = layout_->units()[unit];
  Unit& u = units_[unit];
  for (size_t i = 0; i < layout.parameters.size(); ++i) {
    const int p = layout.parameters[i];
    const Parameter& parameter = layout_->parameters()[p];
    u.targets[i] = {};
    if (parameter.section < 0 || !parameter.spec.trainable || frozen_[p]) continue;
    const SectionState& s = sections_[parameter.section];
    // A parameter that is tied within the unit has its second target add to the first.
    const bool repeated = std::find(layout.parameters.begin(), layout.parameters.begin() + static_cast<int64_t>(i), p) !=
                          layout.parameters.begin() + static_cast<int64_t>(i);
    u.targets[i] = {.array = s.gradient.Slice(parameter.first, parameter.elements),
                    .accumulate = repeated || (s.opened - 1) % s.cycle != 0};
  }
}

void GradientStore::FillZeros(int unit) {
  for (const model::GradientTarget& target : units_[unit].targets) {
    if (!target.accumulate && !target.array.empty()) compute_->device().elementwise().Fill(*compute_, target.array, 0);
  }
}

absl::Status GradientStore::Ready(int unit) {
  if (!units_[unit].open) {
    ZS_RETURN_IF_ERROR(Open(unit).status());
    FillZeros(unit);
  }
  units_[unit].open = false;
  for (int section : layout_->units()[unit].sections) {
    if (!layout_->sections()[section].trainable) continue;
    SectionState& s = sections_[section];
    if (++s.ready % s.cycle == 0) Depart(section);
  }
  return communicator_->status();
}

void GradientStore::Depart(int section) {
  signature_ = (signature_ * 31 + static_cast<uint32_t>(section) + 1) & 0x7fffffff;
  SectionState& s = sections_[section];
  const bool lands = ShardsGradients(options_->stage);
  const Range in_host = InHost(section, {0, layout_->sections()[section].Owned(communicator_->rank()).count});
  watch_->See(section, s.gradient);
  Departure departure{.section = section,
                      .gradient = s.gradient,
                      .shard = lands ? Held(section) : device::Array(),
                      .accumulate = lands && s.landed,
                      .host_first = in_host.count > 0 ? in_host.first : -1};
  if (!trees_.empty()) {
    const MicroBatchTree::Landing landing = trees_[section].Next();
    departure.shard = landing.buffer;
    departure.accumulate = landing.accumulate;
    departure.carries = landing.carries;
  }
  s.flight->Take(departure);
  s.landed = true;
  if (lands && layout_->sections()[section].alone()) s.flight->Flush();
}

int GradientStore::AnyOpen() const {
  for (size_t u = 0; u < units_.size(); ++u) {
    if (units_[u].open) return static_cast<int>(u);
  }
  return -1;
}

bool GradientStore::Started() const {
  return std::any_of(units_.begin(), units_.end(), [](const Unit& u) { return u.opened > 0; });
}

absl::Status GradientStore::Finish() {
  if (finished_) return communicator_->status();
  if (const int open = AnyOpen(); open >= 0) {
    return absl::FailedPreconditionError(absl::StrCat("the gradients of unit ", layout_->units()[open].name,
                                                      " are under way; call GradientsReady or Abandon first"));
  }
  for (size_t i = 0; i < sections_.size(); ++i) {
    if (sections_[i].ready % sections_[i].cycle != 0) Depart(static_cast<int>(i));
  }
  for (const auto& flight : flights_) flight->Flush();
  // The older one first: a section that is in both is added in order.
  for (int i = 1; i <= slots_; ++i) flights_[(current_ + i) % slots_]->Land();
  for (size_t i = slots_; i < flights_.size(); ++i) flights_[i]->Land();
  reduction_.WaitOnCrossings(*compute_);
  for (MicroBatchTree& tree : trees_) tree.Finish(*compute_);
  for (size_t i = 0; i < sections_.size(); ++i) {
    const device::Array held = Held(static_cast<int>(i));
    if (sections_[i].ready > 0) continue;
    if (!held.empty()) compute_->device().elementwise().Fill(*compute_, held, 0);
    const Range in_host = InHost(static_cast<int>(i), {0, layout_->sections()[i].Owned(communicator_->rank()).count});
    if (in_host.count > 0) host_->Zero(in_host);
  }
  watch_->Forget();
  finished_ = true;
  return communicator_->status();
}

device::Array GradientStore::Held(int section) const {
  if (!trees_.empty()) return trees_[section].sum();
  const device::Array all = resident_.array(precision_.gradients);
  const Holding holding = HoldingOf(*layout_, options_->stage, communicator_->rank(), section);
  if (ShardsGradients(options_->stage)) {
    const Range resident = Intersect({holding.state_first, holding.range.count}, {0, all.elements()});
    return all.Slice(resident.first, resident.count);
  }
  return all.Slice(layout_->sections()[section].full_first + holding.range.first, holding.range.count);
}

Range GradientStore::InHost(int section, Range part) const {
  if (host_ == nullptr) return {};
  const int64_t first = HoldingOf(*layout_, options_->stage, communicator_->rank(), section).state_first + part.first;
  return Intersect({first, part.count}, host_->elements());
}

void GradientStore::ReadHeld(int section, Range part, const device::Array& to) const {
  const Range in_host = InHost(section, part);
  const int64_t resident = part.count - in_host.count;
  if (resident > 0) {
    compute_->device().elementwise().Convert(*compute_, Held(section).Slice(part.first, resident), to.Slice(0, resident));
  }
  if (in_host.count > 0) host_->Read(*compute_, in_host, to.Slice(resident, in_host.count));
}

void GradientStore::WriteHeld(int section, Range part, const device::Array& from) {
  const Range in_host = InHost(section, part);
  const int64_t resident = part.count - in_host.count;
  if (resident > 0) {
    compute_->device().elementwise().Convert(*compute_, from.Slice(0, resident), Held(section).Slice(part.first, resident));
  }
  if (in_host.count > 0) host_->Write(*compute_, in_host, from.Slice(resident, in_host.count));
}

void GradientStore::BeginStep() {
  for (const auto& flight : flights_) flight->Land();
  if (!finished_) reduction_.WaitOnCrossings(*compute_);
  for (SectionState& s : sections_) {
    s.opened = 0;
    s.ready = 0;
    s.landed = false;
  }
  for (Unit& u : units_) {
    u.open = false;
    u.opened = 0;
  }
  current_ = 0;
  finished_ = false;
  signature_ = 0;
  reduction_.BeginStep();
  watch_->BeginStep();
  for (MicroBatchTree& tree : trees_) tree.Clear();
}

void GradientStore::SetFrozen(int parameter, bool frozen) {
  frozen_[parameter] = frozen;
  watch_->SetFrozen(parameter, frozen);
}

absl::StatusOr<std::optional<NonFiniteGradient>> GradientStore::FindNonFinite(RankMinimum& minimum) {
  const auto look = [&](const Part& part, const device::Array& largest) -> float {
    const Range in_host = InHost(part.section, part.held);
    const int64_t resident = part.held.count - in_host.count;
    if (resident > 0) {
      compute_->device().step().MaxMagnitude(*compute_, Held(part.section).Slice(part.held.first, resident),
                                             device::OnePiece(resident, /*of=*/0), largest);
    }
    return in_host.count > 0 ? host_->Largest(in_host) : 0;
  };
  return watch_->Find(look, minimum);
}

}  // namespace zeroshard::zero

// How a GradientStore is made: all its memory, and its flights.

#include <algorithm>
#include <utility>

#include "zeroshard/device/memory_ledger.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/zero/gradient_store.h"
#include "zeroshard/zero/holding.h"
#include "zeroshard/zero/offload/offload_plan.h"
#include "zeroshard/zero/owned_memory.h"

namespace zeroshard::zero {

using device::Array;

absl::StatusOr<std::unique_ptr<GradientStore>> GradientStore::Create(const RankGroups& ranks, const Layout& layout,
                                                                     const EngineOptions& options, device::Stream& compute) {
  std::unique_ptr<GradientStore> store(new GradientStore(ranks, layout, options, compute));
  ZS_RETURN_IF_ERROR(store->Allocate());
  return store;
}

GradientStore::GradientStore(const RankGroups& ranks, const Layout& layout, const EngineOptions& options,
                             device::Stream& compute)
    : ranks_(&ranks),
      communicator_(&ranks.shard()),
      layout_(&layout),
      options_(&options),
      compute_(&compute),
      precision_(PrecisionOf(options, layout.ranks())),
      reduction_(ranks, layout, options),
      units_(layout.units().size()),
      sections_(layout.trainable_sections()),
      frozen_(layout.parameters().size()) {
  for (size_t u = 0; u < units_.size(); ++u) units_[u].targets.resize(layout.units()[u].parameters.size());
  for (size_t i = 0; i < sections_.size(); ++i) {
    sections_[i].cycle = layout.sections()[i].contributions;
    if (!ShardsGradients(options.stage) && !options.world_invariant) sections_[i].cycle *= options.accumulation;
  }
}

absl::Status GradientStore::Allocate() {
  const int rank = communicator_->rank();
  const OffloadPlan plan = OffloadPlanOf(*layout_, *options_, rank);
  ZS_ASSIGN_OR_RETURN(watch_, NonFiniteWatch::Create(*layout_, *options_, ranks_->all().rank(), *compute_));
  ZS_RETURN_IF_ERROR(reduction_.Allocate());
  ZS_RETURN_IF_ERROR(AllocateTrees());
  const int64_t held = trees_.empty() ? plan.first : 0;
  const int64_t bytes = ShardsGradients(options_->stage) ? held * SizeOf(precision_.gradients)
                                                         : layout_->trainable_elements() * SizeOf(precision_.backward);
  // Who reads shards: replicas, where there are any.
  comm::Communicator& reader = ranks_->replicas() == nullptr ? *communicator_ : *ranks_->replicas();
  ZS_ASSIGN_OR_RETURN(resident_, ShardsGradients(options_->stage)
                                     ? AllocateOwned(reader, *options_, bytes, device::Use::kGradients, "gradients")
                                     : reduction_.communicator().Allocate(bytes, device::Use::kGradients, "gradients"));
  if (plan.offloads_gradients) {
    ZS_ASSIGN_OR_RETURN(host_, HostGradients::Create(communicator_->device(), plan, precision_.gradients));
  }
  return ShardsGradients(options_->stage) ? MakeFlights() : MakeResidentFlight();
}

absl::Status GradientStore::AllocateTrees() {
  const int buffers = TreeBuffers(*options_);
  if (buffers == 0) return absl::OkStatus();
  const int rank = communicator_->rank();
  const int64_t elements = StateElements(*layout_, options_->stage, rank);
  ZS_ASSIGN_OR_RETURN(partial_sums_,
                      AllocateOwned(*communicator_, *options_, buffers * elements * SizeOf(device::DType::kFloat32),
                                    device::Use::kGradients, "sums of micro-batches"));
  const Array all = partial_sums_.array(device::DType::kFloat32);
  for (int s = 0; s < layout_->trainable_sections(); ++s) {
    const Holding holding = HoldingOf(*layout_, options_->stage, rank, s);
    std::vector<Array> of_section;
    for (int b = 0; b < buffers; ++b) {
      of_section.push_back(all.Slice(b * elements + holding.state_first, holding.range.count));
    }
    trees_.emplace_back(std::move(of_section), options_->accumulation);
  }
  return absl::OkStatus();
}

absl::Status GradientStore::AllocateWire(int64_t elements) {
  if (!precision_.converts()) return absl::OkStatus();
  ZS_ASSIGN_OR_RETURN(wire_, reduction_.communicator().Allocate(elements * SizeOf(precision_.wire),
                                                                device::Use::kCommunication, "gradients on the wire"));
  return absl::OkStatus();
}

void GradientStore::AddFlight(const Array& all, Range range, int sections) {
  FlightOptions options{.hold = !ShardsGradients(options_->stage) && !options_->overlap,
                        .wait_at_once = !options_->overlap,
                        .host = host_.get(),
                        .prescale = precision_.prescale};
  if (precision_.converts()) options.wire = wire_.array(precision_.wire).Slice(range.first, range.count);
  flights_.push_back(
      std::make_unique<Flight>(reduction_, *layout_, *compute_, all.Slice(range.first, range.count), sections, options));
}

absl::Status GradientStore::MakeResidentFlight() {
  const Array all = resident_.array(precision_.backward);
  ZS_RETURN_IF_ERROR(AllocateWire(all.elements()));
  AddFlight(all, {0, all.elements()}, static_cast<int>(sections_.size()));
  for (size_t i = 0; i < sections_.size(); ++i) {
    const Section& section = layout_->sections()[i];
    sections_[i].gradient = all.Slice(section.full_first, section.elements);
    sections_[i].flight = flights_.front().get();
  }
  return absl::OkStatus();
}

// Memory in flight: one slot, or two with overlap, for the units in backward; then the gradients that are alone.
absl::Status GradientStore::MakeFlights() {
  int64_t largest = 0;   // of a unit's sections that pass through the slots
  int64_t together = 0;  // of all that do
  int64_t alone = 0;
  for (size_t i = 0; i < sections_.size(); ++i) {
    const Section& section = layout_->sections()[i];
    if (section.alone()) {
      alone += section.elements;
    } else {
      largest = std::max(largest, layout_->OwnTrainableElements(section.units.front()));
      together += section.elements;
    }
  }
  slots_ = options_->overlap ? 2 : 1;
  const int64_t bucket = RoundedBucketElements(options_->reduce_bucket_size, layout_->ranks());
  const int64_t slot = std::max(largest, RoundUp(std::min(bucket, together) / slots_, kAlignmentElements));
  ZS_ASSIGN_OR_RETURN(in_flight_, reduction_.communicator().Allocate((slots_ * slot + alone) * SizeOf(precision_.backward),
                                                                     device::Use::kCommunication, "gradients in flight"));
  ZS_RETURN_IF_ERROR(AllocateWire(slots_ * slot + alone));
  const Array all = in_flight_.array(precision_.backward);
  for (int i = 0; i < slots_; ++i) AddFlight(all, {i * slot, slot}, static_cast<int>(sections_.size()));
  int64_t first = slots_ * slot;
  for (size_t i = 0; i < sections_.size(); ++i) {
    const Section& section = layout_->sections()[i];
    if (!section.alone()) continue;
    AddFlight(all, {first, section.elements}, /*sections=*/1);
    sections_[i].flight = flights_.back().get();
    first += section.elements;
  }
  return absl::OkStatus();
}

}  // namespace zeroshard::zero

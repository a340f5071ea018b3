// How a ParameterStore is made: its blocks, and all its memory.

#include <algorithm>
#include <utility>

#include "zeroshard/device/memory_ledger.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/zero/holding.h"
#include "zeroshard/zero/owned_memory.h"
#include "zeroshard/zero/parameter_store.h"

namespace zeroshard::zero {
namespace {

std::vector<int> Uses(const Layout& layout) {
  std::vector<int> uses;
  for (const UnitLayout& unit : layout.units()) uses.push_back(unit.uses);
  return uses;
}

std::vector<bool> Recomputed(const Layout& layout) {
  std::vector<bool> recomputed;
  for (const UnitLayout& unit : layout.units()) recomputed.push_back(unit.recomputed);
  return recomputed;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ParameterStore>> ParameterStore::Create(comm::Communicator& communicator,
                                                                       const Layout& layout, const EngineOptions& options,
                                                                       device::Stream& compute) {
  std::unique_ptr<ParameterStore> store(new ParameterStore(communicator, layout, options, compute));
  ZS_RETURN_IF_ERROR(store->AllocateResident());
  store->MakeBlocks();
  if (ShardsParameters(options.stage)) ZS_RETURN_IF_ERROR(store->AllocateSlots());
  if (ShardsOptimizer(options.stage)) store->MakeUpdatedGather();
  return store;
}

ParameterStore::ParameterStore(comm::Communicator& communicator, const Layout& layout, const EngineOptions& options,
                               device::Stream& compute)
    : communicator_(&communicator),
      layout_(&layout),
      options_(&options),
      compute_(&compute),
      order_(Uses(layout), Recomputed(layout)),
      units_(layout.units().size()),
      block_of_section_(layout.sections().size(), -1),
      written_(communicator.device().MakeEvent()) {
  for (size_t u = 0; u < units_.size(); ++u) {
    units_[u].arrays.resize(layout.units()[u].parameters.size());
    units_[u].elements = GatheredElements(layout, static_cast<int>(u));
  }
}

bool ParameterStore::StaysWhole(int section) const {
  return !ShardsParameters(options_->stage) || layout_->sections()[section].persistent;
}

Range ParameterStore::ResidentRange(int section) const {
  const Section& s = layout_->sections()[section];
  if (StaysWhole(section)) return {0, s.elements};
  const Range owned = s.Owned(communicator_->rank());
  return tier_ == nullptr ? owned : Range{owned.first, 0};
}

absl::Status ParameterStore::AllocateResident() {
  if (options_->offload_parameters.target != OffloadTarget::kNone) {
    ZS_ASSIGN_OR_RETURN(tier_, ParameterTier::Create(communicator_->device(), *layout_, *options_, communicator_->rank()));
  }
  int64_t elements = 0;
  for (int s = 0; s < static_cast<int>(layout_->sections().size()); ++s) {
    resident_first_.push_back(elements);
    elements += ResidentRange(s).count;
  }
  const int64_t bytes = elements * SizeOf(options_->dtype);
  ZS_ASSIGN_OR_RETURN(resident_,
                      ShardsParameters(options_->stage)
                          ? AllocateOwned(*communicator_, *options_, bytes, device::Use::kParameters, "parameters")
                          : communicator_->Allocate(bytes, device::Use::kParameters, "parameters"));
  return absl::OkStatus();
}

device::Array ParameterStore::Resident(int section) const {
  return resident_.array(options_->dtype).Slice(resident_first_[section], ResidentRange(section).count);
}

device::Array ParameterStore::Held(int section) const {
  const Range held = HoldingOf(*layout_, options_->stage, communicator_->rank(), section).range;
  const Range part = Intersect(held, ResidentRange(section));
  return Resident(section).Slice(part.first - ResidentRange(section).first, part.count);
}

absl::Status ParameterStore::ReadHeld(int section, Range part, const device::Array& to) {
  const device::Array held = Held(section);
  if (held.empty() && tier_ != nullptr) {
    const int64_t first = layout_->sections()[section].shard_first[communicator_->rank()] + part.first;
    return tier_->Read(*compute_, {first, part.count}, to);
  }
  // A gather in place may write this rank's part too.
  Block& block = blocks_[block_of_section_[section]];
  if (block.whole) AwaitGather(block);
  compute_->device().elementwise().Convert(*compute_, held.Slice(part.first, part.count), to);
  return absl::OkStatus();
}

absl::Status ParameterStore::WriteResident(int section, Range piece, const device::Array& from) {
  const Range resident = Intersect(piece, ResidentRange(section));
  if (resident.count > 0) {
    compute_->device().elementwise().Convert(
        *compute_, from.Slice(resident.first - piece.first, resident.count),
        Resident(section).Slice(resident.first - ResidentRange(section).first, resident.count));
  }
  if (tier_ == nullptr) return absl::OkStatus();
  const Section& s = layout_->sections()[section];
  const int rank = communicator_->rank();
  const Range owned = Intersect(piece, s.Owned(rank));
  if (owned.count == 0) return absl::OkStatus();
  const int64_t first = s.shard_first[rank] + owned.first - s.Owned(rank).first;
  return tier_->Write(*compute_, {first, owned.count}, from.Slice(owned.first - piece.first, owned.count));
}

void ParameterStore::MakeBlocks() {
  const std::vector<Section>& sections = layout_->sections();
  for (int u = 0; u < static_cast<int>(units_.size()); ++u) {
    const UnitLayout& unit = layout_->units()[u];
    const auto shared = unit.sections.begin() + unit.own_sections;
    std::vector<int> own, persistent;
    for (auto s = unit.sections.begin(); s != shared; ++s) (sections[*s].persistent ? persistent : own).push_back(*s);
    AddBlock(std::move(own), unit.name, {u});
    if (!persistent.empty()) AddBlock(std::move(persistent), unit.name, {u});
    for (auto s = shared; s != unit.sections.end(); ++s) {
      if (block_of_section_[*s] < 0) {
        AddBlock({*s}, sections[*s].name, sections[*s].units);
        blocks_.back().tied = true;
      }
    }
  }
}

void ParameterStore::AddBlock(std::vector<int> sections, std::string_view label, const std::vector<int>& units) {
  const int index = static_cast<int>(blocks_.size());
  const bool whole = sections.empty() ? !ShardsParameters(options_->stage) : StaysWhole(sections.front());
  for (int s : sections) block_of_section_[s] = index;
  for (int u : units) units_[u].blocks.push_back(index);
  // What the optimizer does not write stays whole.
  if (whole) std::erase_if(sections, [&](int s) { return !layout_->sections()[s].trainable; });
  Block block{.gather = SectionGather(*communicator_, *layout_, sections, label), .units = units, .whole = whole};
  for (int s : sections) {
    const Range owned = layout_->sections()[s].Owned(communicator_->rank());
    block.elements += layout_->sections()[s].elements;
    const bool resident = whole || tier_ == nullptr;
    block.owned.push_back(resident ? Resident(s).Slice(owned.first - ResidentRange(s).first, owned.count) : device::Array());
    block.full.push_back(whole ? Resident(s) : device::Array());
  }
  if (whole) block.state = ShardState::kUnsharded;
  blocks_.push_back(std::move(block));
}

absl::Status ParameterStore::AllocateSlots() {
  const GatherPlan plan = PlanGathers(*layout_, *options_);
  ZS_ASSIGN_OR_RETURN(gathered_, communicator_->Allocate(plan.Elements() * SizeOf(options_->dtype),
                                                         device::Use::kCommunication, "gathered units"));
  pooled_slots_ = plan.one_each ? 0 : plan.slots;
  int64_t first = 0;
  for (int i = 0; i < pooled_slots_; ++i, first += plan.slot_elements) AddSlot(first, plan.slot_elements);
  for (Block& block : blocks_) {
    if (block.whole || (pooled_slots_ > 0 && !block.tied && block.elements > 0)) continue;
    // A block of no element takes no memory, but passes through the same states.
    block.own_slot = static_cast<int>(slots_.size());
    AddSlot(first, block.elements);
    first += block.elements;
  }
  return absl::OkStatus();
}

void ParameterStore::MakeUpdatedGather() {
  std::vector<UpdatedGather::Whole> sections;
  for (int s = 0; s < layout_->trainable_sections(); ++s) {
    if (StaysWhole(s)) sections.push_back({.section = s, .memory = Resident(s)});
  }
  updated_ = std::make_unique<UpdatedGather>(*communicator_, *layout_, *options_, *compute_, std::move(sections));
}

void ParameterStore::AddSlot(int64_t first, int64_t elements) {
  Slot slot;
  slot.memory = gathered_.array(options_->dtype).Slice(first, elements);
  slot.released = communicator_->device().MakeEvent();
  slot.brought = communicator_->device().MakeEvent();
  slots_.push_back(std::move(slot));
}

}  // namespace zeroshard::zero

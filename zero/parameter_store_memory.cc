// How a ParameterStore is made: its blocks, and all its memory.

#include <algorithm>
#include <utility>

#include "zeroshard/device/memory_ledger.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/zero/holding.h"
#include "zeroshard/zero/parameter_store.h"

namespace zeroshard::zero {

absl::StatusOr<std::unique_ptr<ParameterStore>> ParameterStore::Create(comm::Communicator& communicator,
                                                                       const Layout& layout, const EngineOptions& options,
                                                                       device::Stream& compute) {
  std::unique_ptr<ParameterStore> store(new ParameterStore(communicator, layout, options, compute));
  ZS_RETURN_IF_ERROR(store->AllocateResident());
  store->MakeBlocks();
  if (ShardsParameters(options.stage)) {
    ZS_RETURN_IF_ERROR(store->AllocateSlots());
  } else {
    for (size_t u = 0; u < store->units_.size(); ++u) store->FillArrays(static_cast<int>(u));
  }
  return store;
}

namespace {

std::vector<bool> Recomputed(const Layout& layout) {
  std::vector<bool> recomputed;
  for (const UnitLayout& unit : layout.units()) recomputed.push_back(unit.recomputed);
  return recomputed;
}

}  // namespace

ParameterStore::ParameterStore(comm::Communicator& communicator, const Layout& layout, const EngineOptions& options,
                               device::Stream& compute)
    : communicator_(&communicator),
      layout_(&layout),
      options_(&options),
      compute_(&compute),
      order_(Recomputed(layout)),
      units_(layout.units().size()),
      block_of_section_(layout.sections().size(), -1),
      written_(communicator.device().MakeEvent()) {
  for (size_t u = 0; u < units_.size(); ++u) units_[u].arrays.resize(layout.units()[u].parameters.size());
}

absl::Status ParameterStore::AllocateResident() {
  const int64_t elements =
      ShardsParameters(options_->stage) ? layout_->OwnedTotal(communicator_->rank()) : layout_->total_elements();
  ZS_ASSIGN_OR_RETURN(resident_,
                      communicator_->Allocate(elements * SizeOf(options_->dtype), device::Use::kParameters, "parameters"));
  return absl::OkStatus();
}

device::Array ParameterStore::Resident(int section) const {
  const Section& s = layout_->sections()[section];
  const device::Array all = resident_.array(options_->dtype);
  if (!ShardsParameters(options_->stage)) return all.Slice(s.full_first, s.elements);
  const int rank = communicator_->rank();
  return all.Slice(s.shard_first[rank], s.Owned(rank).count);
}

device::Array ParameterStore::Held(int section) const {
  if (ShardsParameters(options_->stage)) return Resident(section);
  const Range held = HoldingOf(*layout_, options_->stage, communicator_->rank(), section).range;
  return Resident(section).Slice(held.first, held.count);
}

void ParameterStore::MakeBlocks() {
  const std::vector<Section>& sections = layout_->sections();
  for (size_t u = 0; u < units_.size(); ++u) {
    const UnitLayout& unit = layout_->units()[u];
    const auto shared = unit.sections.begin() + unit.own_sections;
    AddBlock({unit.sections.begin(), shared}, unit.name, static_cast<int>(u));
    units_[u].blocks.push_back(static_cast<int>(blocks_.size()) - 1);
    for (auto s = shared; s != unit.sections.end(); ++s) {
      if (block_of_section_[*s] < 0) AddBlock({*s}, sections[*s].name, /*own_unit=*/-1);
      units_[u].blocks.push_back(block_of_section_[*s]);
    }
  }
}

void ParameterStore::AddBlock(std::vector<int> sections, std::string_view label, int own_unit) {
  for (int s : sections) block_of_section_[s] = static_cast<int>(blocks_.size());
  if (!ShardsParameters(options_->stage)) {
    // What the optimizer does not write stays whole.
    std::erase_if(sections, [&](int s) { return !layout_->sections()[s].trainable; });
  }
  Block block{.gather = SectionGather(*communicator_, *layout_, sections, label), .own_unit = own_unit};
  const int rank = communicator_->rank();
  for (int s : sections) {
    const Section& section = layout_->sections()[s];
    const Range owned = section.Owned(rank);
    block.elements += section.elements;
    block.owned.push_back(ShardsParameters(options_->stage) ? Resident(s) : Resident(s).Slice(owned.first, owned.count));
    block.full.push_back(ShardsParameters(options_->stage) ? device::Array() : Resident(s));
  }
  if (!ShardsParameters(options_->stage)) block.state = ShardState::kUnsharded;
  blocks_.push_back(std::move(block));
}

absl::Status ParameterStore::AllocateSlots() {
  int64_t pooled_elements = 0;  // of one slot that goes round
  int pooled_blocks = 0;
  int64_t own_elements = 0;  // of all slots that are one block's alone
  for (const Block& block : blocks_) {
    if (block.elements == 0) continue;
    if (block.own_unit < 0 || options_->keep_parameters) {
      own_elements += block.elements;
    } else {
      pooled_elements = std::max(pooled_elements, block.elements);
      ++pooled_blocks;
    }
  }
  pooled_slots_ = std::min(1 + EffectivePrefetch(*options_), pooled_blocks);
  const int64_t elements = pooled_slots_ * pooled_elements + own_elements;
  ZS_ASSIGN_OR_RETURN(
      gathered_, communicator_->Allocate(elements * SizeOf(options_->dtype), device::Use::kCommunication, "gathered units"));
  int64_t first = 0;
  for (int i = 0; i < pooled_slots_; ++i, first += pooled_elements) AddSlot(first, pooled_elements);
  for (Block& block : blocks_) {
    const bool pooled = block.own_unit >= 0 && !options_->keep_parameters;
    if (pooled && block.elements > 0) continue;
    // A block of no element takes no memory, but passes through the same states.
    block.own_slot = static_cast<int>(slots_.size());
    AddSlot(first, block.elements);
    first += block.elements;
  }
  return absl::OkStatus();
}

void ParameterStore::AddSlot(int64_t first, int64_t elements) {
  Slot slot;
  slot.memory = gathered_.array(options_->dtype).Slice(first, elements);
  slot.released = communicator_->device().MakeEvent();
  slots_.push_back(std::move(slot));
}

}  // namespace zeroshard::zero

#include "zeroshard/zero/parameter_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::zero {

bool ParameterStore::Reads(UnitPass at) const {
  return at.pass != Pass::kBackward || layout_->units()[at.unit].backward_reads_parameters;
}

absl::Status ParameterStore::Unshard(int unit, Pass pass) {
  Unit& u = units_[unit];
  if (u.state == ShardState::kSharded || u.pass != pass) order_.Visit({unit, pass});
  u.pass = pass;
  if (Reads({unit, pass}) && !u.holds) ZS_RETURN_IF_ERROR(Acquire(unit));
  u.state = ShardState::kUnsharded;
  Prefetch(pass);
  if (tier_ != nullptr) ZS_RETURN_IF_ERROR(tier_->status());
  return communicator_->status();
}

absl::Status ParameterStore::Reshard(int unit) {
  Unit& u = units_[unit];
  if (u.state == ShardState::kSharded) return absl::OkStatus();
  u.state = ShardState::kSharded;
  if (!u.holds) return absl::OkStatus();
  RecordReleased(unit);
  if (!Keeps(unit)) Release(unit);
  return absl::OkStatus();
}

void ParameterStore::RecordReleased(int unit) {
  for (int b : units_[unit].blocks) {
    if (blocks_[b].slot >= 0) compute_->Record(*slots_[blocks_[b].slot].released);
  }
}

absl::StatusOr<std::span<const device::Array>> ParameterStore::parameters(int unit) {
  const Unit& u = units_[unit];
  if (u.state != ShardState::kUnsharded) {
    return absl::FailedPreconditionError(
        absl::StrCat("the parameters of unit ", layout_->units()[unit].name, " are sharded; call Unshard first"));
  }
  if (!Reads({unit, u.pass})) return std::span<const device::Array>();
  return std::span<const device::Array>(u.arrays);
}

int ParameterStore::AnyUnsharded() const {
  for (size_t u = 0; u < units_.size(); ++u) {
    if (units_[u].state != ShardState::kSharded) return static_cast<int>(u);
  }
  return -1;
}

void ParameterStore::ReshardAll() {
  for (size_t u = 0; u < units_.size(); ++u) {
    if (units_[u].state == ShardState::kSharded && !units_[u].holds) continue;
    RecordReleased(static_cast<int>(u));
    if (units_[u].holds) Release(static_cast<int>(u));
    units_[u].state = ShardState::kSharded;
  }
  order_.ForgetPass();
}

absl::Status ParameterStore::Acquire(int unit) {
  Unit& u = units_[unit];
  u.state = ShardState::kUnsharding;  // what it has so far does not give way to the rest of it
  for (int b : u.blocks) {
    if (blocks_[b].state != ShardState::kSharded) continue;
    const int slot = TakeSlot(b, /*window=*/{}, u.pass);
    if (slot < 0) {
      u.state = ShardState::kSharded;
      return NoRoom(unit);
    }
    StartGather(b, slot);
  }
  for (int b : u.blocks) {
    AwaitGather(blocks_[b]);
    ++blocks_[b].holders;
  }
  u.holds = true;
  FillArrays(unit);
  return absl::OkStatus();
}

void ParameterStore::AwaitGather(Block& block) {
  if (block.state != ShardState::kUnsharding) return;
  block.work.WaitOn(*compute_);
  block.state = ShardState::kUnsharded;
}

void ParameterStore::Release(int unit) {
  Unit& u = units_[unit];
  u.holds = false;
  for (int b : u.blocks) {
    if (--blocks_[b].holders == 0) Drop(blocks_[b]);
  }
}

void ParameterStore::Drop(Block& block) {
  if (block.whole || block.state == ShardState::kSharded) return;
  block.state = ShardState::kSharded;
  slots_[block.slot].block = -1;
  block.slot = -1;
  live_ -= block.elements;
}

void ParameterStore::StartGather(int b, int slot) {
  Block& block = blocks_[b];
  block.slot = slot;
  slots_[slot].block = b;
  live_ += block.elements;
  int64_t first = 0;
  for (size_t i = 0; i < block.full.size(); ++i) {
    const int64_t elements = layout_->sections()[block.gather.sections()[i]].elements;
    block.full[i] = slots_[slot].memory.Slice(first, elements);
    first += elements;
  }
  comm::CallOptions call;
  call.after = {slots_[slot].released.get(), written_.get()};
  if (tier_ != nullptr) {
    Bring(block, slots_[slot]);
    call.after = {slots_[slot].brought.get()};
  }
  call.wait_at_once = !options_->overlap;
  block.work = block.gather.Issue(block.owned, block.full, call);
  block.state = ShardState::kUnsharding;
  if (block.elements > 0) last_gather_ = block.work;
}

// The last section's end is the end of all: they are brought in order.
void ParameterStore::Bring(Block& block, const Slot& slot) {
  const int rank = communicator_->rank();
  for (size_t i = 0; i < block.full.size(); ++i) {
    const Section& section = layout_->sections()[block.gather.sections()[i]];
    const Range owned = section.Owned(rank);
    block.owned[i] = block.full[i].Slice(owned.first, owned.count);
    tier_->Bring({.first = section.shard_first[rank],
                  .to = block.owned[i],
                  .after = {slot.released.get(), written_.get()},
                  .brought = i + 1 == block.full.size() ? slot.brought.get() : nullptr});
  }
}

void ParameterStore::FillArrays(int unit) {
  const UnitLayout& layout = layout_->units()[unit];
  for (size_t i = 0; i < layout.parameters.size(); ++i) {
    const Parameter& p = layout_->parameters()[layout.parameters[i]];
    if (p.section >= 0) units_[unit].arrays[i] = Whole(p.section).Slice(p.first, p.elements);
  }
}

device::Array ParameterStore::Whole(int section) const {
  if (StaysWhole(section)) return Resident(section);
  const Block& block = blocks_[block_of_section_[section]];
  const std::vector<int>& sections = block.gather.sections();
  return block.full[std::find(sections.begin(), sections.end(), section) - sections.begin()];
}

void ParameterStore::BeginUpdate() {
  for (Block& block : blocks_) AwaitGather(block);
  for (size_t u = 0; u < units_.size(); ++u) {
    if (units_[u].holds) Release(static_cast<int>(u));
  }
  for (Block& block : blocks_) Drop(block);
  if (updated_ != nullptr) updated_->Begin();
}

void ParameterStore::WrittenBefore(int section) {
  if (updated_ != nullptr) updated_->WrittenBefore(section);
}

void ParameterStore::EndUpdate(bool gather) {
  compute_->Record(*written_);
  order_.EndPass();
  if (!gather || updated_ == nullptr) return;
  updated_->Finish();
  for (Block& block : blocks_) {
    if (!block.whole) continue;
    for (int section : block.gather.sections()) block.work = updated_->WorkOf(section);
    block.state = ShardState::kUnsharding;
  }
}

// They end in order. Some nobody waits for: one whose block gave way, and those of an update that ended half done.
void ParameterStore::Settle() {
  last_gather_.WaitOn(*compute_);
  if (updated_ != nullptr) updated_->last().WaitOn(*compute_);
}

}  // namespace zeroshard::zero

#include "zeroshard/zero/parameter_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::zero {

bool ParameterStore::Reads(int unit, Pass pass) const {
  return pass != Pass::kBackward || layout_->units()[unit].backward_reads_parameters;
}

// Whether what forward gathered for `unit` stays for its backward.
bool ParameterStore::Keeps(int unit) const {
  return units_[unit].pass != Pass::kBackward && Reads(unit, Pass::kBackward) &&
         (options_->keep_parameters || order_.EndsForward(unit));
}

absl::Status ParameterStore::Unshard(int unit, Pass pass) {
  Unit& u = units_[unit];
  if (u.state == ShardState::kSharded || u.pass != pass) order_.Visit({unit, pass});
  u.pass = pass;
  if (Reads(unit, pass) && !u.holds) ZS_RETURN_IF_ERROR(Acquire(unit));
  u.state = ShardState::kUnsharded;
  Prefetch(unit, pass);
  return communicator_->status();
}

absl::Status ParameterStore::Reshard(int unit) {
  Unit& u = units_[unit];
  if (u.state == ShardState::kSharded) return absl::OkStatus();
  u.state = ShardState::kSharded;
  if (!u.holds) return absl::OkStatus();
  for (int b : u.blocks) {
    if (blocks_[b].slot >= 0) compute_->Record(*slots_[blocks_[b].slot].released);
  }
  if (!Keeps(unit)) Release(unit);
  return absl::OkStatus();
}

absl::StatusOr<std::span<const device::Array>> ParameterStore::parameters(int unit) {
  const Unit& u = units_[unit];
  if (u.state != ShardState::kUnsharded) {
    return absl::FailedPreconditionError(
        absl::StrCat("the parameters of unit ", layout_->units()[unit].name, " are sharded; call Unshard first"));
  }
  if (!Reads(unit, u.pass)) return std::span<const device::Array>();
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
    for (int b : units_[u].blocks) {
      if (blocks_[b].slot >= 0) compute_->Record(*slots_[blocks_[b].slot].released);
    }
    if (units_[u].holds) Release(static_cast<int>(u));
    units_[u].state = ShardState::kSharded;
  }
  order_.EndPass();
}

absl::Status ParameterStore::Acquire(int unit) {
  Unit& u = units_[unit];
  for (int b : u.blocks) {
    Block& block = blocks_[b];
    if (block.state != ShardState::kSharded) continue;
    const int slot = TakeSlot(b, /*ahead_of=*/-1, u.pass);
    if (slot < 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("no memory to gather unit ", layout_->units()[unit].name, ": ", pooled_slots_,
                       " units are unsharded at once, which is what prefetch = ", options_->prefetch,
                       " allows; Reshard one, or prefetch more"));
    }
    StartGather(b, slot);
  }
  for (int b : u.blocks) {
    Block& block = blocks_[b];
    if (block.state == ShardState::kUnsharding) {
      block.work.WaitOn(*compute_);
      block.state = ShardState::kUnsharded;
    }
    ++block.holders;
  }
  u.holds = true;
  FillArrays(unit);
  return absl::OkStatus();
}

void ParameterStore::Release(int unit) {
  Unit& u = units_[unit];
  u.holds = false;
  for (int b : u.blocks) {
    if (--blocks_[b].holders == 0 && ShardsParameters(options_->stage)) Drop(blocks_[b]);
  }
}

void ParameterStore::Drop(Block& block) {
  block.state = ShardState::kSharded;
  if (block.slot >= 0) slots_[block.slot].block = -1;
  block.slot = -1;
}

void ParameterStore::Prefetch(int unit, Pass pass) {
  const UnitPass at = {unit, pass};
  UnitPass next = at;
  for (int i = 0; i < EffectivePrefetch(*options_); ++i) {
    next = order_.Next(next);
    if (next.unit < 0 || next == at) return;
    if (!Reads(next.unit, next.pass)) continue;
    for (int b : units_[next.unit].blocks) {
      if (blocks_[b].state != ShardState::kSharded) continue;
      const int slot = TakeSlot(b, unit, pass);
      if (slot < 0) return;
      StartGather(b, slot);
    }
  }
}

bool ParameterStore::IsExpected(int unit, int from, Pass pass) const {
  UnitPass next = {from, pass};
  for (int i = 0; i < EffectivePrefetch(*options_) && next.unit >= 0; ++i) {
    next = order_.Next(next);
    if (next.unit == unit) return true;
  }
  return false;
}

int ParameterStore::TakeSlot(int block, int ahead_of, Pass pass) {
  if (blocks_[block].own_slot >= 0) return blocks_[block].own_slot;
  int evicted = -1;
  for (int s = 0; s < pooled_slots_; ++s) {
    if (slots_[s].block < 0) return s;
    const Block& held = blocks_[slots_[s].block];
    const Unit& owner = units_[held.own_unit];
    if (owner.state == ShardState::kUnsharded) continue;
    // A prefetch gives way to what comes before it, and in backward to what forward kept.
    const bool kept = owner.holds && pass != Pass::kForward;
    if (ahead_of >= 0 && (kept || IsExpected(held.own_unit, ahead_of, pass))) continue;
    // What was merely prefetched goes before what was kept.
    if (evicted < 0 || held.holders == 0) evicted = s;
  }
  if (evicted >= 0) Evict(evicted);
  return evicted;
}

void ParameterStore::Evict(int slot) {
  // Its gather may be under way still: the next one into this slot follows it on the communicator.
  Block& block = blocks_[slots_[slot].block];
  if (block.holders == 0) {
    Drop(block);
  } else {
    Release(block.own_unit);
  }
}

void ParameterStore::StartGather(int b, int slot) {
  Block& block = blocks_[b];
  block.slot = slot;
  slots_[slot].block = b;
  int64_t first = 0;
  for (size_t i = 0; i < block.full.size(); ++i) {
    const int64_t elements = layout_->sections()[block.gather.sections()[i]].elements;
    block.full[i] = slots_[slot].memory.Slice(first, elements);
    first += elements;
  }
  comm::CallOptions call;
  call.after = {slots_[slot].released.get(), written_.get()};
  call.wait_at_once = !options_->overlap;
  block.work = block.gather.Issue(block.owned, block.full, call);
  block.state = ShardState::kUnsharding;
}

void ParameterStore::FillArrays(int unit) {
  const UnitLayout& layout = layout_->units()[unit];
  for (size_t i = 0; i < layout.parameters.size(); ++i) {
    const Parameter& p = layout_->parameters()[layout.parameters[i]];
    if (p.section >= 0) units_[unit].arrays[i] = Whole(p.section).Slice(p.first, p.elements);
  }
}

device::Array ParameterStore::Whole(int section) const {
  if (!ShardsParameters(options_->stage)) return Resident(section);
  const Block& block = blocks_[block_of_section_[section]];
  const std::vector<int>& sections = block.gather.sections();
  return block.full[std::find(sections.begin(), sections.end(), section) - sections.begin()];
}

void ParameterStore::BeginUpdate() {
  for (Block& block : blocks_) {
    if (block.state == ShardState::kUnsharding) {
      block.work.WaitOn(*compute_);
      block.state = ShardState::kUnsharded;
    }
  }
  if (!ShardsParameters(options_->stage)) return;
  for (size_t u = 0; u < units_.size(); ++u) {
    if (units_[u].holds) Release(static_cast<int>(u));
  }
  for (Block& block : blocks_) {
    if (block.state != ShardState::kSharded) Drop(block);
  }
}

void ParameterStore::EndUpdate(bool gather) {
  compute_->Record(*written_);
  order_.EndPass();
  if (!gather || !ShardsOptimizer(options_->stage) || ShardsParameters(options_->stage)) return;
  for (Block& block : blocks_) {
    block.work =
        block.gather.Issue(block.owned, block.full, {.after = {written_.get()}, .wait_at_once = !options_->overlap});
    block.state = ShardState::kUnsharding;
    if (!options_->overlap) block.work.WaitOn(*compute_);
  }
}

}  // namespace zeroshard::zero

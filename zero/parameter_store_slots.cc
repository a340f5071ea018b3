// What a ParameterStore gathers ahead, what it keeps, and what gives way.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "zeroshard/zero/parameter_store.h"

namespace zeroshard::zero {

void ParameterStore::Meet(int unit, Walk& walk) {
  for (int b : units_[unit].blocks) {
    Block& block = blocks_[b];
    if (block.whole || block.walked == walk_) continue;
    block.walked = walk_;
    walk.elements += block.elements;
    walk.slots += block.own_slot < 0;
  }
}

// Whether the unit is read on the path; walks no further.
bool ParameterStore::WalkTo(int unit, std::span<const UnitPass> path, Walk& walk) {
  for (const UnitPass at : path) {
    if (at.unit == unit && Reads(at)) return true;
    ++walk.visits;
    if (!Reads(at)) continue;
    walk.distance += units_[at.unit].elements;
    Meet(at.unit, walk);
  }
  return false;
}

bool ParameterStore::Keeps(int unit) {
  if (!ShardsParameters(options_->stage)) return false;
  Walk walk;
  ++walk_;
  Meet(unit, walk);
  const bool comes =
      WalkTo(unit, order_.Ahead(), walk) || (units_[unit].pass == Pass::kForward && WalkTo(unit, order_.Backward(), walk));
  if (!comes) return false;
  if (walk.elements > MostLiveElements(*options_) || (pooled_slots_ > 0 && walk.slots > pooled_slots_)) return false;
  if (options_->keep_parameters || walk.visits == 0) return true;
  return options_->max_reuse_distance > 0 && walk.distance <= options_->max_reuse_distance;
}

std::span<const UnitPass> ParameterStore::Window() const {
  const std::span<const UnitPass> ahead = order_.Ahead();
  int units = 0;
  int64_t elements = 0;
  size_t n = 0;
  for (; n < ahead.size(); ++n) {
    const int64_t needed = units_[ahead[n].unit].elements;
    if (needed == 0 || !Reads(ahead[n])) continue;
    elements += needed;
    if (++units > MostUnitsAhead(*options_) || elements > MostElementsAhead(*options_)) break;
  }
  return ahead.first(n);
}

void ParameterStore::Prefetch(Pass pass) {
  const std::span<const UnitPass> window = Window();
  for (const UnitPass next : window) {
    if (!Reads(next)) continue;
    for (int b : units_[next.unit].blocks) {
      if (blocks_[b].state != ShardState::kSharded) continue;
      const int slot = TakeSlot(b, window, pass);
      if (slot < 0) return;
      StartGather(b, slot);
    }
  }
}

int ParameterStore::TakeSlot(int block, std::span<const UnitPass> window, Pass pass) {
  const Block& wanted = blocks_[block];
  while (live_ + wanted.elements > MostLiveElements(*options_)) {
    const int victim = FindVictim(/*pooled=*/false, window, pass);
    if (victim < 0) return -1;
    Evict(victim);
  }
  if (wanted.own_slot >= 0) return wanted.own_slot;
  for (int s = 0; s < pooled_slots_; ++s) {
    if (slots_[s].block < 0) return s;
  }
  const int victim = FindVictim(/*pooled=*/true, window, pass);
  if (victim < 0) return -1;
  const int slot = blocks_[victim].slot;
  Evict(victim);
  return slot;
}

int ParameterStore::FindVictim(bool pooled, std::span<const UnitPass> window, Pass pass) const {
  const auto in_use = [&](int u) { return units_[u].state != ShardState::kSharded; };
  const auto expected = [&](int u) {
    return std::any_of(window.begin(), window.end(), [u](UnitPass next) { return next.unit == u; });
  };
  int victim = -1;
  for (const Slot& slot : slots_) {
    if (slot.block < 0 || (pooled && blocks_[slot.block].own_slot >= 0)) continue;
    const Block& block = blocks_[slot.block];
    if (block.elements == 0 || std::any_of(block.units.begin(), block.units.end(), in_use)) continue;
    // A prefetch gives way to what comes before it, and in backward to what forward kept.
    const bool kept = block.holders > 0 && pass != Pass::kForward;
    if (!window.empty() && (kept || std::any_of(block.units.begin(), block.units.end(), expected))) continue;
    // What was merely prefetched goes before what was kept.
    if (victim < 0 || block.holders == 0) victim = slot.block;
  }
  return victim;
}

void ParameterStore::Evict(int victim) {
  // Its gather may be under way still: the next one into this slot follows it on the communicator. What is brought does not.
  Block& block = blocks_[victim];
  if (tier_ != nullptr && block.state == ShardState::kUnsharding && block.slot >= 0) {
    block.work.WaitOn(*compute_);
    compute_->Record(*slots_[block.slot].released);
  }
  for (int u : block.units) {
    if (units_[u].holds) Release(u);
  }
  if (block.slot >= 0) Drop(block);
}

absl::Status ParameterStore::NoRoom(int unit) const {
  const std::string& name = layout_->units()[unit].name;
  if (live_ + units_[unit].elements > MostLiveElements(*options_)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "no room to gather unit ", name, " [", units_[unit].elements, " elements] beside the units that are unsharded [",
        live_, "]: max_live_parameters is ", options_->max_live_parameters, "; Reshard one, or raise it"));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("no memory to gather unit ", name, ": ", pooled_slots_,
                   " units are unsharded at once, which is what prefetch = ", options_->prefetch,
                   " and prefetch_bucket_size = ", options_->prefetch_bucket_size, " allow; Reshard one, or prefetch more"));
}

}  // namespace zeroshard::zero

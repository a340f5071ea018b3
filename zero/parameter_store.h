// The parameters of one rank: where they live, and how a unit's become whole before it runs and are dropped after.
//
// Stages 0 to 2 hold all of them; the optimizer of stages 1 and 2 writes this rank's parts, after which each unit is gathered in
// place. Stage 3 holds the rank's parts alone, and gathers a unit into a **slot** when it is to run (gather_plan.h); but for
// persistent parameters, which it holds as stages 1 and 2 do (updated_gather.h).
//
// Note: Blocks. What is gathered at once is a block: a unit's own sections, or a tied parameter's section; persistent ones apart. A
// unit stands on one or more blocks, a tied block under several units. A block's states and transitions:
//
//     sharded --Start--> unsharding --first Unshard of a unit on it--> unsharded --its last holder lets go--> sharded (stage 3)
//
// Where a block stays whole from step to step, Start is the gather at a step's end, and it is never dropped. A unit holds its blocks
// from Unshard to Reshard; and on to its next use where that is near (Keeps). What no unit uses at the moment (prefetched, kept)
// gives way where its slot, or room under max_live_parameters, is needed; so a wrong guess is harmless.
//
// Example:
//   ZS_RETURN_IF_ERROR(store->Unshard(3, Pass::kForward));
//   ZS_ASSIGN_OR_RETURN(auto parameters, store->parameters(3));
//   ZS_RETURN_IF_ERROR(store->Reshard(3));
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/comm/communicator.h"
#include "zeroshard/device/buffer.h"
#include "zeroshard/device/device.h"
#include "zeroshard/zero/engine_options.h"
#include "zeroshard/zero/gather_plan.h"
#include "zeroshard/zero/layout.h"
#include "zeroshard/zero/offload/parameter_tier.h"
#include "zeroshard/zero/pass.h"
#include "zeroshard/zero/section_gather.h"
#include "zeroshard/zero/unit_order.h"
#include "zeroshard/zero/updated_gather.h"

namespace zeroshard::zero {

enum class ShardState : uint8_t { kSharded, kUnsharding, kUnsharded };

class ParameterStore {
 public:
  // Allocates all memory, zeros. All references outlive the store; `options` are valid.
  static absl::StatusOr<std::unique_ptr<ParameterStore>> Create(comm::Communicator& communicator, const Layout& layout,
                                                                const EngineOptions& options, device::Stream& compute);

  // See Engine.
  absl::Status Unshard(int unit, Pass pass);
  absl::Status Reshard(int unit);
  absl::StatusOr<std::span<const device::Array>> parameters(int unit);
  bool IsUnsharded(int unit) const { return units_[unit].state == ShardState::kUnsharded; }
  Pass pass(int unit) const { return units_[unit].pass; }  // of its last Unshard
  // A unit that is unsharded, or -1.
  int AnyUnsharded() const;
  // Reshards every unit, and forgets the pass that was under way.
  void ReshardAll();

  // What the optimizer of this rank writes of a section in device memory: see HoldingOf. Empty where that is in tier() alone.
  device::Array Held(int section) const;
  // The rank's part of all sections under parameter offload; null without.
  ParameterTier* tier() const { return tier_.get(); }
  // to = part of what HoldingOf says of a section, as fp32. from: [piece.count] fp32 of the section, of which all that this rank has
  // is written. Queued on compute; wait under parameter offload. Errors: kDataLoss, from a file.
  absl::Status ReadHeld(int section, Range part, const device::Array& to);
  absl::Status WriteResident(int section, Range piece, const device::Array& from);
  // What lies of a section in this rank's device memory from step to step: all of it, or (stage 3) its own part, but for persistent
  // ones; nothing of others under parameter offload.
  device::Array Resident(int section) const;
  Range ResidentRange(int section) const;
  // Brackets the writing of parameters, queued on compute. Before: whoever reads them has done so, and no gathered copy is left.
  // After: `gather` makes whole again what stays whole from step to step. An update that is to be gathered and goes through sections
  // in ascending order may say in between how far it has come: what it has come past is gathered meanwhile.
  void BeginUpdate();
  void WrittenBefore(int section);
  void EndUpdate(bool gather);
  // Compute waits for all that was gathered, whether or not anybody came to use it: before memory is given back.
  void Settle();

 private:
  struct Slot {
    device::Array memory;
    std::unique_ptr<device::Event> released;  // its last unit has computed
    std::unique_ptr<device::Event> brought;   // this rank's part has come from the tier
    int block = -1;                           // what it holds, or is about to
  };
  struct Block {
    SectionGather gather;
    std::vector<device::Array> owned = {};  // of each of its sections: this rank's part
    std::vector<device::Array> full = {};   // of each: the whole, where it is now
    int64_t elements = 0;
    std::vector<int> units = {};  // that stand on it
    bool whole = false;           // stays so from step to step
    bool tied = false;
    ShardState state = ShardState::kSharded;
    comm::Work work = {};
    int holders = 0;  // units that hold it
    int slot = -1;
    int own_slot = -1;  // the slot that is its alone, if there is one
    int walked = 0;     // the last walk of Keeps that met it
  };
  struct Unit {
    std::vector<int> blocks;
    ShardState state = ShardState::kSharded;
    Pass pass = Pass::kForward;
    int64_t elements = 0;               // that it needs in slots
    bool holds = false;                 // its blocks
    std::vector<device::Array> arrays;  // its parameters, in order; valid while it holds
  };

  ParameterStore(comm::Communicator& communicator, const Layout& layout, const EngineOptions& options,
                 device::Stream& compute);
  absl::Status AllocateResident();
  void MakeBlocks();
  void AddBlock(std::vector<int> sections, std::string_view label, const std::vector<int>& units);
  absl::Status AllocateSlots();
  void AddSlot(int64_t first, int64_t elements);
  void MakeUpdatedGather();
  // Whether a section lies whole in this rank's memory from step to step.
  bool StaysWhole(int section) const;

  absl::Status Acquire(int unit);
  // What is queued on compute from now on finds the block whole, if it is being gathered.
  void AwaitGather(Block& block);
  void Release(int unit);
  void RecordReleased(int unit);
  bool Reads(UnitPass at) const;
  // Whether a unit that is resharded holds its blocks on to its next use.
  bool Keeps(int unit);
  struct Walk {
    int visits = 0;        // of units in between
    int64_t distance = 0;  // elements that they need
    int64_t elements = 0;  // of all blocks that were met, each once
    int slots = 0;         // that go round, of those blocks
  };
  void Meet(int unit, Walk& walk);
  bool WalkTo(int unit, std::span<const UnitPass> path, Walk& walk);
  // The units that may be gathered ahead of the one that was unsharded last.
  std::span<const UnitPass> Window() const;
  void Prefetch(Pass pass);
  absl::Status NoRoom(int unit) const;

  // The slot for a block that is about to be gathered; -1 if none can be had. A prefetch takes none that holds what is expected in
  // `window`, nor, in backward, what was kept; for a unit that is to run at once (no window) whatever is not in use gives way.
  int TakeSlot(int block, std::span<const UnitPass> window, Pass pass);
  // Of the blocks in slots, the one to give way next; -1 if there is none. `pooled`: of those in slots that go round.
  int FindVictim(bool pooled, std::span<const UnitPass> window, Pass pass) const;
  void Evict(int block);
  void StartGather(int block, int slot);
  // Begins to bring this rank's part of a block from the tier to its place in the slot.
  void Bring(Block& block, const Slot& slot);
  void Drop(Block& block);
  void FillArrays(int unit);
  // A whole section, where it is now.
  device::Array Whole(int section) const;

  comm::Communicator* communicator_;
  const Layout* layout_;
  const EngineOptions* options_;
  device::Stream* compute_;
  UnitOrder order_;
  std::vector<Unit> units_;
  std::vector<Block> blocks_;
  std::vector<int> block_of_section_;
  std::vector<int64_t> resident_first_;  // [section]: in resident_
  std::vector<Slot> slots_;
  int pooled_slots_ = 0;                    // the first of slots_ go round
  int64_t live_ = 0;                        // elements of blocks that are in slots
  int walk_ = 0;                            // of Keeps, counted
  comm::Work last_gather_;                  // into a slot
  std::unique_ptr<device::Event> written_;  // the last writer of parameters is done
  device::Buffer resident_;
  device::Buffer gathered_;
  std::unique_ptr<UpdatedGather> updated_;  // stages 1 to 3
  std::unique_ptr<ParameterTier> tier_;
};

}  // namespace zeroshard::zero

// The parameters of one rank: where they live, and how a unit's become whole before it runs and are dropped after.
//
// Stages 0 to 2 hold all of them; the optimizer of stages 1 and 2 writes this rank's parts, after which each unit is gathered in
// place. Stage 3 holds the rank's parts alone, and gathers a unit into a **slot** when it is to run: 1 + prefetch slots go round,
// or every unit has its own with keep_parameters; a tied parameter always has its own.
//
// Note: Blocks. What is gathered at once is a block: a unit's own sections, or a tied parameter's section. A unit stands on one or
// more blocks, a tied block under several units. A block's states and transitions:
//
//     sharded --Start--> unsharding --first Unshard of a unit on it--> unsharded --its last holder lets go--> sharded (stage 3)
//
// In stages 0 to 2 Start is the gather at a step's end, and nothing is ever dropped. A unit holds its blocks from Unshard to
// Reshard; and on from forward's Reshard to backward's, with keep_parameters or where the unit ended forward. What no unit uses at
// the moment (prefetched, kept) gives way where a slot is needed; so a wrong guess is harmless.
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
#include "zeroshard/zero/layout.h"
#include "zeroshard/zero/pass.h"
#include "zeroshard/zero/section_gather.h"
#include "zeroshard/zero/unit_order.h"

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
  // Reshards every unit, and forgets how far a pass had come.
  void ReshardAll();

  // What the optimizer of this rank writes of a section: see HoldingOf.
  device::Array Held(int section) const;
  // What lies of a section in this rank's memory from step to step: all of it, or (stage 3) its own part.
  device::Array Resident(int section) const;
  // Brackets the writing of parameters, queued on compute. Before: whoever reads them has done so, and no gathered copy is left.
  // After: in stages 1 and 2 `gather` makes every unit whole again.
  void BeginUpdate();
  void EndUpdate(bool gather);

 private:
  struct Slot {
    device::Array memory;
    std::unique_ptr<device::Event> released;  // its last unit has computed
    int block = -1;                           // what it holds, or is about to
  };
  struct Block {
    SectionGather gather;
    std::vector<device::Array> owned = {};  // of each of its sections: this rank's part
    std::vector<device::Array> full = {};   // of each: the whole, where it is now
    int64_t elements = 0;
    int own_unit = -1;  // whose own sections they are; -1: a tied parameter's
    ShardState state = ShardState::kSharded;
    comm::Work work = {};
    int holders = 0;  // units that hold it
    int slot = -1;
    int own_slot = -1;  // the slot that is its alone, if there is one
  };
  struct Unit {
    std::vector<int> blocks;
    ShardState state = ShardState::kSharded;
    Pass pass = Pass::kForward;
    bool holds = false;                 // its blocks
    std::vector<device::Array> arrays;  // its parameters, in order; valid while it holds
  };

  ParameterStore(comm::Communicator& communicator, const Layout& layout, const EngineOptions& options,
                 device::Stream& compute);
  absl::Status AllocateResident();
  void MakeBlocks();
  void AddBlock(std::vector<int> sections, std::string_view label, int own_unit);
  absl::Status AllocateSlots();
  void AddSlot(int64_t first, int64_t elements);

  absl::Status Acquire(int unit);
  void Release(int unit);
  void Prefetch(int unit, Pass pass);
  bool Reads(int unit, Pass pass) const;
  bool Keeps(int unit) const;
  bool IsExpected(int unit, int from, Pass pass) const;

  // The slot for a block that is about to be gathered; -1 if none can be had. A prefetch (from unit `ahead_of`) takes none that
  // holds what is expected next.
  int TakeSlot(int block, int ahead_of, Pass pass);
  void Evict(int slot);
  void StartGather(int block, int slot);
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
  std::vector<Slot> slots_;
  int pooled_slots_ = 0;                    // the first of slots_ go round
  std::unique_ptr<device::Event> written_;  // the last writer of parameters is done
  device::Buffer resident_;
  device::Buffer gathered_;
};

}  // namespace zeroshard::zero

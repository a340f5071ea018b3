// The gradients of one rank: where backward leaves them, how they add up over uses and micro-batches, and where the reduced ones
// are for the optimizer.
//
// Stages 0 and 1 hold all gradients, add up micro-batches there, and reduce a section in place with its last one. Stages 2 and 3
// hold the rank's part alone; backward writes into memory in flight (flight.h), and each micro-batch is reduced and added to it.
//
// Note: Contributions. A section's gradient is a sum of contributions: one for each GradientsReady of a unit on it. A **cycle** is
// how many of them are added up on the rank before they are reduced: those of one micro-batch in stages 2 and 3, those of the whole
// step in stages 0 and 1. The first of a cycle overwrites, the next ones add; the last one makes the section leave. Finish reduces
// what a cycle has left unfinished; a section with no contribution at all in a step has a gradient of zero.
//
// Note: World invariance. With world_invariant a cycle is a micro-batch in every stage, and what was reduced is added up by a tree over
// micro-batches (micro_batch_tree.h) in fp32 buffers of what this rank holds. In stages 0 and 1 whole gradients are then what backward
// writes and reductions leave, from micro-batch to micro-batch.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(auto targets, store->Open(3));   // backward fills them
//   ZS_RETURN_IF_ERROR(store->Ready(3));
//   ...
//   ZS_RETURN_IF_ERROR(store->Finish());
//   optimizer.Apply(compute, {.gradients = store->Held(section), ...});
//   store->BeginStep();
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/comm/communicator.h"
#include "zeroshard/device/buffer.h"
#include "zeroshard/device/device.h"
#include "zeroshard/model/gradient_target.h"
#include "zeroshard/zero/bucket_reduction.h"
#include "zeroshard/zero/engine_options.h"
#include "zeroshard/zero/flight.h"
#include "zeroshard/zero/layout.h"
#include "zeroshard/zero/micro_batch_tree.h"
#include "zeroshard/zero/non_finite.h"
#include "zeroshard/zero/offload/host_gradients.h"
#include "zeroshard/zero/precision.h"
#include "zeroshard/zero/rank_groups.h"

namespace zeroshard::zero {

class GradientStore {
 public:
  // Allocates all memory, zeros. All references outlive the store; `options` are valid.
  static absl::StatusOr<std::unique_ptr<GradientStore>> Create(const RankGroups& ranks, const Layout& layout,
                                                               const EngineOptions& options, device::Stream& compute);

  // See Engine::gradients and Engine::GradientsReady.
  absl::StatusOr<std::span<const model::GradientTarget>> Open(int unit);
  absl::Status Ready(int unit);
  // A unit whose targets were handed out and not handed back, or -1.
  int AnyOpen() const;
  // Whether any unit's targets were handed out in this step.
  bool Started() const;
  // Whether Finish was called in this step.
  bool finished() const { return finished_; }

  // Reduces what is left; then compute is ordered after every reduction, and Held is the sum over ranks and micro-batches.
  // Idempotent. Errors: kFailedPrecondition while a unit is open; the communicator's.
  absl::Status Finish();
  // What this rank holds of a section's reduced gradient (see HoldingOf) in device memory: under offload, in stages 2 and 3, the first
  // elements of it, perhaps none; the others are in host().
  device::Array Held(int section) const;
  // Null where all gradients are in device memory.
  HostGradients* host() const { return host_.get(); }
  // to = part of what this rank holds of a section's reduced gradient, as fp32, and back. Queued on compute; wait under offload.
  void ReadHeld(int section, Range part, const device::Array& to) const;
  void WriteHeld(int section, Range part, const device::Array& from);
  // Forgets all contributions. Without Finish before it, what was under way is waited for and dropped.
  void BeginStep();

  // See Engine. Between steps.
  void SetFrozen(int parameter, bool frozen);
  void WatchGradients(bool on) { watch_->Watch(on); }
  absl::StatusOr<std::optional<NonFiniteGradient>> FindNonFinite(RankMinimum& minimum);

  // What was reduced in this step, in which order, as a number below 2^31: the same on every rank, or their sums are of things that
  // do not belong together.
  uint32_t signature() const { return signature_; }
  int64_t reductions() const { return reduction_.reductions(); }

 private:
  struct SectionState {
    device::Array gradient;    // whole; in stages 2 and 3 valid while it is in flight
    Flight* flight = nullptr;  // that it is in, or is always in
    int64_t cycle = 1;
    int64_t opened = 0;   // contributions whose targets were handed out
    int64_t ready = 0;    // contributions that are there
    bool landed = false;  // its shard holds something of this step
  };
  struct Unit {
    std::vector<model::GradientTarget> targets;
    bool open = false;
    int64_t opened = 0;
  };

  GradientStore(const RankGroups& ranks, const Layout& layout, const EngineOptions& options, device::Stream& compute);
  absl::Status Allocate();
  absl::Status AllocateTrees();
  absl::Status MakeResidentFlight();
  absl::Status AllocateWire(int64_t elements);
  absl::Status MakeFlights();
  // Its memory: elements first ... of `all`.
  void AddFlight(const device::Array& all, Range range, int sections);

  absl::Status CheckOpen(int unit) const;
  absl::Status OpenSection(int unit, int section);
  // A flight with room for `elements`, the memory of which is free.
  absl::StatusOr<Flight*> FlightFor(int unit, int64_t elements);
  void FillTargets(int unit);
  void FillZeros(int unit);
  void Depart(int section);
  // What of `part` of a section's gradient, as this rank holds it, is in host memory: as elements of the state.
  Range InHost(int section, Range part) const;

  const RankGroups* ranks_;
  comm::Communicator* communicator_;  // of the shard group
  const Layout* layout_;
  const EngineOptions* options_;
  device::Stream* compute_;
  Precision precision_;
  BucketReduction reduction_;
  std::vector<Unit> units_;
  std::vector<SectionState> sections_;  // the trainable ones
  std::vector<std::unique_ptr<Flight>> flights_;
  int slots_ = 0;    // the first of flights_ take the units of backward in turn
  int current_ = 0;  // of them
  bool finished_ = false;
  uint32_t signature_ = 0;
  device::Buffer resident_;   // stages 0, 1: whole gradients; 2, 3: this rank's part, or what of it is not offloaded
  device::Buffer in_flight_;  // stages 2, 3
  std::vector<MicroBatchTree> trees_;    // [section], where micro-batches are added by a tree
  device::Buffer partial_sums_;          // of trees_
  device::Buffer wire_;                  // copies that travel, where they are of another dtype
  std::unique_ptr<HostGradients> host_;  // after all that its thread reads
  std::unique_ptr<NonFiniteWatch> watch_;
  std::vector<bool> frozen_;  // [Layout::parameters]: for now
};

}  // namespace zeroshard::zero

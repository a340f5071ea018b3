// Reduces one bucket of gradients over the ranks: how, follows from stage and partition; what is summed into what, never.
//
// A bucket is a list of pieces of sections. What a piece counts in, its **positions**, depends on the route:
//   kReduceScatter       columns of the section seen as [N, shard]: so every rank gets its part of every bucket
//   kAllReduce           elements of the section, a multiple of 64 N
//   kReduceToOwner, ...  elements of the section that have an owner
//
// Note: Two levels. Where several shard groups hold the same (rank_groups.h), kReduceScatter and kReduceToOwner sum within the group
// first, then across replicas what each of them got. A group is S consecutive ranks: where S is a power of two its sum is a subtree of
// the sum over all, and the bits are those of one level. What crosses in between is fp32, and rounded once: two-byte gradients pass
// through fp32 staging memory of two buckets. What is not to the owner's part alone (kAllReduce) goes over all ranks at once.
//
// Example: the first half of a section's columns; this rank's part of the sum goes to `shard`.
//   Piece piece{.section = 3, .positions = {0, reduction.Positions(3) / 2}, .gradient = whole, .shard = shard};
//   Reduction under_way = reduction.Issue({&piece, 1}, {.after = {&backward_done}});
//   under_way.WaitOn(compute);
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "zeroshard/comm/communicator.h"
#include "zeroshard/device/array.h"
#include "zeroshard/device/buffer.h"
#include "zeroshard/device/event.h"
#include "zeroshard/zero/engine_options.h"
#include "zeroshard/zero/layout.h"
#include "zeroshard/zero/rank_groups.h"

namespace zeroshard::zero {

enum class Route : uint8_t {
  kReduceScatter,       // flat
  kAllReduce,           // flat in stage 0; reduce_scatter off; shards of one rank
  kReduceToOwner,       // tensor: one reduction for each owner
  kReduceAndBroadcast,  // tensor in stage 0: to the owner, and from it to all
};

Route RouteOf(const EngineOptions& options, const Layout& layout);

// Elements of a bucket: reduce_bucket_size rounded down to a multiple of 64 N, at least one.
int64_t RoundedBucketElements(int64_t reduce_bucket_size, int world_size);

// fp32 elements that a reduction on two levels is staged in; 0: it needs none.
int64_t StagedElements(const EngineOptions& options, const Layout& layout);

struct Piece {
  int section = 0;
  Range positions;
  device::Array gradient;  // the whole section's, [elements]
  device::Array shard;     // where this rank's part of the section goes, [owned]; empty: in place, inside `gradient`
};

// Buckets that are under way: that one and, where this rank has a part in them, all before it.
struct Reduction {
  comm::Work within;
  comm::Work across;

  void WaitOn(device::Stream& stream) {
    within.WaitOn(stream);
    across.WaitOn(stream);
  }
};

class BucketReduction {
 public:
  BucketReduction(const RankGroups& ranks, const Layout& layout, const EngineOptions& options);
  // Before the first Issue. Errors: kResourceExhausted; the communicator's.
  absl::Status Allocate();

  // The part that this rank holds: Section::Owned takes it.
  int rank() const { return ranks_->shard().rank(); }
  // Over which gradients are reduced (first).
  comm::Communicator& communicator() const { return *communicator_; }
  Route route() const { return route_; }
  // Whether the sum can go to Piece::shard; where not, it is left in place.
  bool HasOutput() const { return route_ == Route::kReduceScatter || route_ == Route::kReduceToOwner; }
  int64_t Positions(int section) const;
  // Which part of a section's sum this rank uses: all of it in stage 0, its own in the others.
  Range Used(int section) const;
  int64_t bucket_positions() const { return bucket_positions_; }
  // Collectives issued so far; what crosses is not counted again.
  int64_t reductions() const { return reductions_; }

  // Collective; returns at once, or where kInFlight buckets are on their way across.
  Reduction Issue(std::span<const Piece> pieces, comm::CallOptions options);
  // Orders `stream` after all sums across replicas that were issued.
  void WaitOnCrossings(device::Stream& stream) { last_across_.WaitOn(stream); }
  // With round_robin_gradients the next bucket's owners begin with rank 0 again.
  void BeginStep() { next_owner_ = 0; }

 private:
  // Buckets that may be on their way across at once. Each has two events; they are used again when all that waits for them is known to
  // have ended.
  static constexpr int kInFlight = 32;
  static constexpr int kEvents = 2 * kInFlight;
  struct Crossing {
    std::unique_ptr<device::Event> summed;   // within the group
    std::unique_ptr<device::Event> crossed;  // staging memory is free
  };

  comm::Work ReduceScatter(std::span<const Piece> pieces, const comm::CallOptions& options);
  comm::Work AllReduce(std::span<const Piece> pieces, const comm::CallOptions& options);
  comm::Work ReduceToOwners(std::span<const Piece> pieces, const comm::CallOptions& options);
  comm::Work BroadcastFromOwners(std::span<const Piece> pieces, int first_owner, const comm::CallOptions& options);
  // Fills segments_ with what `owner` owns of the pieces; its output is in place, or in its shard.
  void SegmentsOfOwner(std::span<const Piece> pieces, int owner);

  bool crosses() const { return !crossings_.empty(); }
  // Before the reduction of segments_ within the group, whose sum this rank gets: its options, and where it leaves the sum in between.
  comm::CallOptions BeginCrossing(const comm::CallOptions& options);
  // After it.
  void Cross(const comm::CallOptions& options);

  const RankGroups* ranks_;
  comm::Communicator* communicator_;
  const Layout* layout_;
  Route route_;
  comm::ReduceOp op_;
  bool round_robin_;
  bool uses_all_;
  int64_t bucket_positions_;
  int64_t staged_elements_;
  int64_t reductions_ = 0;
  int next_owner_ = 0;
  std::vector<comm::Segment> segments_;

  std::vector<Crossing> crossings_;  // [kEvents]; empty: there is one level
  std::array<comm::Work, kInFlight> crossing_;
  int64_t crossed_ = 0;                // buckets
  std::vector<comm::Segment> across_;  // of the bucket that is about to cross
  comm::Work last_across_;
  device::Buffer staging_;
};

}  // namespace zeroshard::zero

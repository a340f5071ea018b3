// Reduces one bucket of gradients over the ranks: how, follows from stage and partition; what is summed into what, never.
//
// A bucket is a list of pieces of sections. What a piece counts in, its **positions**, depends on the route:
//   kReduceScatter       columns of the section seen as [N, shard]: so every rank gets its part of every bucket
//   kAllReduce           elements of the section, a multiple of 64 N
//   kReduceToOwner, ...  elements of the section that have an owner
//
// Example: the first half of a section's columns; this rank's part of the sum goes to `shard`.
//   Piece piece{.section = 3, .positions = {0, reduction.Positions(3) / 2}, .gradient = whole, .shard = shard};
//   Work work = reduction.Issue({&piece, 1}, {.after = {&backward_done}});
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "zeroshard/comm/communicator.h"
#include "zeroshard/device/array.h"
#include "zeroshard/zero/engine_options.h"
#include "zeroshard/zero/layout.h"

namespace zeroshard::zero {

enum class Route : uint8_t {
  kReduceScatter,       // flat
  kAllReduce,           // flat in stage 0; reduce_scatter off
  kReduceToOwner,       // tensor: one reduction for each owner
  kReduceAndBroadcast,  // tensor in stage 0: to the owner, and from it to all
};

Route RouteOf(const EngineOptions& options);

// Elements of a bucket: reduce_bucket_size rounded down to a multiple of 64 N, at least one.
int64_t RoundedBucketElements(int64_t reduce_bucket_size, int world_size);

struct Piece {
  int section = 0;
  Range positions;
  device::Array gradient;  // the whole section's, [elements]
  device::Array shard;     // where this rank's part of the section goes, [owned]; empty: in place, inside `gradient`
};

class BucketReduction {
 public:
  BucketReduction(comm::Communicator& communicator, const Layout& layout, const EngineOptions& options);

  int rank() const { return communicator_->rank(); }
  Route route() const { return route_; }
  // Whether the sum can go to Piece::shard; where not, it is left in place.
  bool HasOutput() const { return route_ == Route::kReduceScatter || route_ == Route::kReduceToOwner; }
  int64_t Positions(int section) const;
  // Which part of a section's sum this rank uses: all of it in stage 0, its own in the others.
  Range Used(int section) const;
  int64_t bucket_positions() const { return bucket_positions_; }
  // Collectives issued so far.
  int64_t reductions() const { return reductions_; }

  // Collective; returns at once. The Work's end is the end of all of it.
  comm::Work Issue(std::span<const Piece> pieces, comm::CallOptions options);
  // With round_robin_gradients the next bucket's owners begin with rank 0 again.
  void BeginStep() { next_owner_ = 0; }

 private:
  comm::Work ReduceScatter(std::span<const Piece> pieces, const comm::CallOptions& options);
  comm::Work AllReduce(std::span<const Piece> pieces, const comm::CallOptions& options);
  comm::Work ReduceToOwners(std::span<const Piece> pieces, const comm::CallOptions& options);
  comm::Work BroadcastFromOwners(std::span<const Piece> pieces, int first_owner, const comm::CallOptions& options);
  // Fills segments_ with what `owner` owns of the pieces; its output is in place, or in its shard.
  void SegmentsOfOwner(std::span<const Piece> pieces, int owner);

  comm::Communicator* communicator_;
  const Layout* layout_;
  Route route_;
  comm::ReduceOp op_;
  bool round_robin_;
  bool uses_all_;
  int64_t bucket_positions_;
  int64_t reductions_ = 0;
  int next_owner_ = 0;
  std::vector<comm::Segment> segments_;
};

}  // namespace zeroshard::zero

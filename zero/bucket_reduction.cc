#include "zeroshard/zero/bucket_reduction.h"

#include <algorithm>

#include "zeroshard/zero/precision.h"

namespace zeroshard::zero {

using comm::ReduceOp;
using device::Array;

Route RouteOf(const EngineOptions& options) {
  const bool flat = options.partition == Partition::kFlat;
  if (!ShardsOptimizer(options.stage)) return flat ? Route::kAllReduce : Route::kReduceAndBroadcast;
  if (!options.reduce_scatter) return Route::kAllReduce;
  return flat ? Route::kReduceScatter : Route::kReduceToOwner;
}

int64_t RoundedBucketElements(int64_t reduce_bucket_size, int world_size) {
  const int64_t unit = kAlignmentElements * world_size;
  return std::max(unit, reduce_bucket_size / unit * unit);
}

BucketReduction::BucketReduction(comm::Communicator& communicator, const Layout& layout, const EngineOptions& options)
    : communicator_(&communicator),
      layout_(&layout),
      route_(RouteOf(options)),
      op_(PrecisionOf(options, layout.world_size()).averages ? ReduceOp::kAverage : ReduceOp::kSum),
      round_robin_(options.round_robin_gradients),
      uses_all_(!ShardsOptimizer(options.stage)),
      bucket_positions_(RoundedBucketElements(options.reduce_bucket_size, layout.world_size())) {
  if (route_ == Route::kReduceScatter) bucket_positions_ /= layout.world_size();
  segments_.reserve(layout.sections().size());
}

int64_t BucketReduction::Positions(int section) const {
  const Section& s = layout_->sections()[section];
  switch (route_) {
    case Route::kReduceScatter:
      return s.elements / layout_->world_size();
    case Route::kAllReduce:
      return s.elements;
    case Route::kReduceToOwner:
    case Route::kReduceAndBroadcast:
      return s.bounds.back();
  }
  return 0;
}

Range BucketReduction::Used(int section) const {
  const Section& s = layout_->sections()[section];
  return uses_all_ ? Range{0, s.elements} : s.Owned(communicator_->rank());
}

comm::Work BucketReduction::Issue(std::span<const Piece> pieces, comm::CallOptions options) {
  options.label = layout_->sections()[pieces.front().section].name;
  switch (route_) {
    case Route::kReduceScatter:
      return ReduceScatter(pieces, options);
    case Route::kAllReduce:
      return AllReduce(pieces, options);
    case Route::kReduceToOwner:
    case Route::kReduceAndBroadcast:
      return ReduceToOwners(pieces, options);
  }
  return {};
}

comm::Work BucketReduction::ReduceScatter(std::span<const Piece> pieces, const comm::CallOptions& options) {
  const int world_size = layout_->world_size();
  segments_.clear();
  for (const Piece& piece : pieces) {
    const int64_t stride = Positions(piece.section);
    const Range columns = piece.positions;
    const Array in = piece.gradient.Slice(columns.first, (world_size - 1) * stride + columns.count);
    const Array out = piece.shard.empty() ? in.Slice(communicator_->rank() * stride, columns.count)
                                          : piece.shard.Slice(columns.first, columns.count);
    segments_.push_back({.in = in, .out = out, .stride = stride});
  }
  ++reductions_;
  return communicator_->ReduceScatter(segments_, op_, options);
}

comm::Work BucketReduction::AllReduce(std::span<const Piece> pieces, const comm::CallOptions& options) {
  segments_.clear();
  for (const Piece& piece : pieces) {
    const Array range = piece.gradient.Slice(piece.positions.first, piece.positions.count);
    segments_.push_back({.in = range, .out = range});
  }
  ++reductions_;
  return communicator_->AllReduce(segments_, op_, options);
}

void BucketReduction::SegmentsOfOwner(std::span<const Piece> pieces, int owner) {
  segments_.clear();
  const bool mine = owner == communicator_->rank();
  for (const Piece& piece : pieces) {
    const Range owned = layout_->sections()[piece.section].Owned(owner);
    const Range part = Intersect(piece.positions, owned);
    if (part.count == 0) continue;
    const Array in = piece.gradient.Slice(part.first, part.count);
    Array out;
    if (mine) out = piece.shard.empty() ? in : piece.shard.Slice(part.first - owned.first, part.count);
    segments_.push_back({.in = in, .out = out});
  }
}

comm::Work BucketReduction::ReduceToOwners(std::span<const Piece> pieces, const comm::CallOptions& options) {
  const int world_size = layout_->world_size();
  const int first_owner = round_robin_ ? next_owner_ : 0;
  next_owner_ = (next_owner_ + 1) % world_size;
  comm::Work last;
  for (int i = 0; i < world_size; ++i) {
    const int owner = (first_owner + i) % world_size;
    SegmentsOfOwner(pieces, owner);
    if (segments_.empty()) continue;
    ++reductions_;
    last = communicator_->Reduce(segments_, op_, owner, options);
  }
  return route_ == Route::kReduceAndBroadcast ? BroadcastFromOwners(pieces, first_owner, options) : last;
}

comm::Work BucketReduction::BroadcastFromOwners(std::span<const Piece> pieces, int first_owner,
                                                const comm::CallOptions& options) {
  const int world_size = layout_->world_size();
  comm::Work last;
  for (int i = 0; i < world_size; ++i) {
    const int owner = (first_owner + i) % world_size;
    SegmentsOfOwner(pieces, owner);
    if (segments_.empty()) continue;
    for (comm::Segment& segment : segments_) segment.out = segment.in;
    last = communicator_->Broadcast(segments_, owner, options);
  }
  return last;
}

}  // namespace zeroshard::zero

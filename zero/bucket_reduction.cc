#include "zeroshard/zero/bucket_reduction.h"

#include <algorithm>

#include "zeroshard/zero/precision.h"

namespace zeroshard::zero {

using comm::ReduceOp;
using device::Array;

Route RouteOf(const EngineOptions& options, const Layout& layout) {
  const bool flat = options.partition == Partition::kFlat;
  if (!ShardsOptimizer(options.stage)) return flat ? Route::kAllReduce : Route::kReduceAndBroadcast;
  if (!options.reduce_scatter || (layout.world_size() == 1 && layout.ranks() > 1)) return Route::kAllReduce;
  return flat ? Route::kReduceScatter : Route::kReduceToOwner;
}

int64_t RoundedBucketElements(int64_t reduce_bucket_size, int world_size) {
  const int64_t unit = kAlignmentElements * world_size;
  return std::max(unit, reduce_bucket_size / unit * unit);
}

namespace {

int64_t BucketPositions(const EngineOptions& options, const Layout& layout) {
  const int64_t elements = RoundedBucketElements(options.reduce_bucket_size, layout.ranks());
  return RouteOf(options, layout) == Route::kReduceScatter ? elements / layout.world_size() : elements;
}

}  // namespace

int64_t StagedElements(const EngineOptions& options, const Layout& layout) {
  const Route route = RouteOf(options, layout);
  const bool crosses = layout.options().replicas > 1 && (route == Route::kReduceScatter || route == Route::kReduceToOwner);
  if (!crosses || PrecisionOf(options, layout.ranks()).wire == device::DType::kFloat32) return 0;
  int64_t most = 0;
  for (int part = 0; part < layout.world_size(); ++part) most = std::max(most, layout.OwnedTrainable(part));
  return 2 * std::min(most, BucketPositions(options, layout));
}

BucketReduction::BucketReduction(const RankGroups& ranks, const Layout& layout, const EngineOptions& options)
    : ranks_(&ranks),
      communicator_(&ranks.shard()),
      layout_(&layout),
      route_(RouteOf(options, layout)),
      op_(PrecisionOf(options, layout.ranks()).averages ? ReduceOp::kAverage : ReduceOp::kSum),
      round_robin_(options.round_robin_gradients),
      uses_all_(!ShardsOptimizer(options.stage)),
      bucket_positions_(BucketPositions(options, layout)),
      staged_elements_(StagedElements(options, layout)) {
  if (route_ == Route::kAllReduce) communicator_ = &ranks.all();
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
  return uses_all_ ? Range{0, s.elements} : s.Owned(rank());
}

Reduction BucketReduction::Issue(std::span<const Piece> pieces, comm::CallOptions options) {
  options.label = layout_->sections()[pieces.front().section].name;
  comm::Work within;
  switch (route_) {
    case Route::kReduceScatter:
      within = ReduceScatter(pieces, options);
      break;
    case Route::kAllReduce:
      within = AllReduce(pieces, options);
      break;
    case Route::kReduceToOwner:
    case Route::kReduceAndBroadcast:
      within = ReduceToOwners(pieces, options);
      break;
  }
  return {.within = within, .across = last_across_};
}

comm::Work BucketReduction::ReduceScatter(std::span<const Piece> pieces, const comm::CallOptions& options) {
  const int world_size = layout_->world_size();
  segments_.clear();
  for (const Piece& piece : pieces) {
    const int64_t stride = Positions(piece.section);
    const Range columns = piece.positions;
    const Array in = piece.gradient.Slice(columns.first, (world_size - 1) * stride + columns.count);
    const Array out =
        piece.shard.empty() ? in.Slice(rank() * stride, columns.count) : piece.shard.Slice(columns.first, columns.count);
    segments_.push_back({.in = in, .out = out, .stride = stride});
  }
  ++reductions_;
  if (!crosses()) return communicator_->ReduceScatter(segments_, op_, options);
  const comm::CallOptions call = BeginCrossing(options);
  const comm::Work within = communicator_->ReduceScatter(segments_, op_, call);
  Cross(options);
  return within;
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
  const bool mine = owner == rank();
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
    const bool crossing = crosses() && owner == rank();
    const comm::CallOptions call = crossing ? BeginCrossing(options) : options;
    last = communicator_->Reduce(segments_, op_, owner, call);
    if (crossing) Cross(options);
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

#include "zeroshard/zero/updated_gather.h"

#include <algorithm>
#include <utility>

#include "zeroshard/zero/bucket_reduction.h"

namespace zeroshard::zero {

using device::Array;

UpdatedGather::UpdatedGather(comm::Communicator& communicator, const Layout& layout, const EngineOptions& options,
                             device::Stream& compute, std::vector<Whole> sections)
    : communicator_(&communicator),
      layout_(&layout),
      options_(&options),
      compute_(&compute),
      flat_(layout.options().partition == Partition::kFlat),
      sections_(std::move(sections)),
      work_(layout.sections().size()) {
  MakeBuckets();
}

int64_t UpdatedGather::Positions(int section) const {
  const Section& s = layout_->sections()[section];
  return flat_ ? s.elements / layout_->world_size() : s.bounds.back();
}

void UpdatedGather::MakeBuckets() {
  const bool by_unit = options_->allgather_bucket_size == 0;
  int64_t size = RoundedBucketElements(options_->allgather_bucket_size, layout_->world_size());
  if (flat_) size /= layout_->world_size();
  int64_t room = 0;
  int unit = -1;  // of the last piece
  size_t most_pieces = 0;
  for (size_t w = 0; w < sections_.size(); ++w) {
    const int section = sections_[w].section;
    const int64_t positions = Positions(section);
    const int first_unit = layout_->sections()[section].units.front();
    for (int64_t done = 0; done < positions;) {
      if (by_unit ? first_unit != unit : room == 0) {
        buckets_.push_back({.pieces = {}, .written = communicator_->device().MakeEvent()});
        room = size;
      }
      const int64_t count = by_unit ? positions : std::min(room, positions - done);
      buckets_.back().pieces.push_back({.whole = w, .positions = {done, count}});
      most_pieces = std::max(most_pieces, buckets_.back().pieces.size());
      unit = first_unit;
      room -= count;
      done += count;
    }
  }
  segments_.reserve(most_pieces);
}

void UpdatedGather::WrittenBefore(int section) {
  if (!options_->overlap) return;
  for (; next_ < buckets_.size() && SectionOf(buckets_[next_].pieces.back()) < section; ++next_) Issue(buckets_[next_]);
}

void UpdatedGather::Finish() {
  for (; next_ < buckets_.size(); ++next_) Issue(buckets_[next_]);
}

void UpdatedGather::Issue(Bucket& bucket) {
  compute_->Record(*bucket.written);
  const comm::CallOptions call{.after = {bucket.written.get()},
                               .wait_at_once = !options_->overlap,
                               .label = layout_->sections()[SectionOf(bucket.pieces.front())].name};
  comm::Work work = flat_ && options_->allgather_partitions ? AllGather(bucket, call) : BroadcastFromOwners(bucket, call);
  if (!options_->overlap) work.WaitOn(*compute_);
  for (const Piece& piece : bucket.pieces) work_[SectionOf(piece)] = work;
  last_ = work;
}

comm::Work UpdatedGather::AllGather(const Bucket& bucket, const comm::CallOptions& call) {
  segments_.clear();
  for (const Piece& piece : bucket.pieces) {
    const int64_t stride = Positions(SectionOf(piece));
    const Array& whole = sections_[piece.whole].memory;
    const auto [first, count] = piece.positions;
    segments_.push_back({.in = whole.Slice(communicator_->rank() * stride + first, count),
                         .out = whole.Slice(first, (layout_->world_size() - 1) * stride + count),
                         .stride = stride});
  }
  return communicator_->AllGather(segments_, call);
}

comm::Work UpdatedGather::BroadcastFromOwners(const Bucket& bucket, const comm::CallOptions& call) {
  comm::Work last;
  for (int owner = 0; owner < layout_->world_size(); ++owner) {
    segments_.clear();
    for (const Piece& piece : bucket.pieces) {
      const Range owned = layout_->sections()[SectionOf(piece)].Owned(owner);
      const Range part =
          flat_ ? Range{owned.first + piece.positions.first, piece.positions.count} : Intersect(piece.positions, owned);
      if (part.count == 0) continue;
      const Array array = sections_[piece.whole].memory.Slice(part.first, part.count);
      segments_.push_back({.in = array, .out = array});
    }
    if (!segments_.empty()) last = communicator_->Broadcast(segments_, owner, call);
  }
  return last;
}

}  // namespace zeroshard::zero

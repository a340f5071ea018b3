// Pieces: a collective's segments cut into stretches that stay in the cache, with several of them under way at once.
//
// A piece is the same columns [first, first + count) of every rank's part of one segment; a rank whose part is shorter has fewer of
// them, or none. All ranks cut alike.
//
// Example:
//   ZS_RETURN_IF_ERROR(ForEachPiece(call, world_size, 16384, kDepth,
//                                   [&](const Piece& piece, int slot) { post receives into the slot },
//                                   [&](const Piece& piece, int slot) { wait for them; return status; }));
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "zeroshard/comm/schedules/host_call.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::comm {

struct Piece {
  const HostSegment* segment = nullptr;
  size_t index = 0;  // of the segment
  Stretch columns;
};

class PieceCursor {
 public:
  PieceCursor(const HostCall& call, int world_size, int64_t elements)
      : call_(call), world_size_(world_size), elements_(elements) {
    SkipEmpty();
  }

  bool done() const { return segment_ == call_.segments.size(); }
  Piece piece() const {
    const HostSegment& segment = call_.segments[segment_];
    return {&segment, segment_, {first_, std::min(elements_, Width() - first_)}};
  }
  void Advance() {
    first_ += elements_;
    if (first_ < Width()) return;
    first_ = 0;
    ++segment_;
    SkipEmpty();
  }

 private:
  // Columns of the longest part: rank 0's.
  int64_t Width() const { return PartOf(call_, call_.segments[segment_], 0, world_size_).count; }
  void SkipEmpty() {
    while (!done() && Width() == 0) ++segment_;
  }

  const HostCall& call_;
  int world_size_;
  int64_t elements_;
  size_t segment_ = 0;
  int64_t first_ = 0;
};

// post(piece, slot), and later, in the same order, complete(piece, slot), which gives a Status; up to `depth` pieces are posted and
// not complete, each in a slot of [0, depth) of its own.
template <class Post, class Complete>
absl::Status ForEachPiece(const HostCall& call, int world_size, int64_t elements, int depth, Post post, Complete complete) {
  PieceCursor ahead(call, world_size, elements);
  int64_t posted = 0;
  int64_t completed = 0;
  for (PieceCursor behind(call, world_size, elements); !behind.done(); behind.Advance()) {
    for (; !ahead.done() && posted - completed < depth; ahead.Advance()) {
      post(ahead.piece(), static_cast<int>(posted++ % depth));
    }
    ZS_RETURN_IF_ERROR(complete(behind.piece(), static_cast<int>(completed++ % depth)));
  }
  return absl::OkStatus();
}

}  // namespace zeroshard::comm

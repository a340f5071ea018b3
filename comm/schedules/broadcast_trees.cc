#include "zeroshard/comm/schedules/broadcast_trees.h"

#include <algorithm>

#include "zeroshard/comm/schedules/pieces.h"
#include "zeroshard/comm/schedules/tree.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::comm {
namespace {

// A piece goes down the tree as one message: a rank hands it on while the next one comes in.
constexpr int64_t kPieceBytes = int64_t{128} << 10;

// A binomial tree over ranks relative to the root: `at` gets from `at` without its highest bit, and hands on to at + 2^j for every
// bit j above that.
struct Place {
  int at;         // relative rank
  int parent;     // absolute rank, or -1 at the root
  int first_bit;  // children are at + 2^j, j >= first_bit
};

Place PlaceOf(int rank, int root, int n) {
  const int at = (rank - root + n) % n;
  int bits = 0;
  while ((at >> bits) != 0) ++bits;
  const int parent = at == 0 ? -1 : (at - (1 << (bits - 1)) + root) % n;
  return {at, parent, bits};
}

}  // namespace

absl::Status BinomialBroadcast(Exchange& exchange, const HostCall& call) {
  const int n = exchange.world_size();
  const Place place = PlaceOf(exchange.rank(), call.root, n);
  const std::span<Transfer> out = exchange.transfers().first(static_cast<size_t>(TreeLevels(n)));
  for (PieceCursor pieces(call, n, kPieceBytes / call.out_size()); !pieces.done(); pieces.Advance()) {
    const Piece piece = pieces.piece();
    std::byte* data = piece.segment->out + piece.columns.first * call.out_size();
    const int64_t bytes = piece.columns.count * call.out_size();
    if (place.parent >= 0) ZS_RETURN_IF_ERROR(exchange.Wait(exchange.Receive(place.parent, data, bytes)));
    ZS_RETURN_IF_ERROR(exchange.WaitAll(out));
    for (int j = place.first_bit; place.at + (1 << j) < n; ++j) {
      out[static_cast<size_t>(j)] = exchange.Send((place.at + (1 << j) + call.root) % n, data, bytes);
    }
  }
  return exchange.WaitAll(out);
}

namespace {

// Part v of a segment, v a relative rank; parts [v, w) are one stretch.
Stretch PartsOf(const HostSegment& segment, int v, int w, int n) {
  const int64_t first = segment.count * v / n;
  return {first, segment.count * std::min(w, n) / n - first};
}

// A rank's subtree is the parts of itself and of all ranks below it: [at, at + 2^k), k its lowest bit.
absl::Status Scatter(Exchange& exchange, const HostSegment& segment, int root, int64_t size) {
  const int n = exchange.world_size();
  const int at = (exchange.rank() - root + n) % n;
  int span = 1 << TreeLevels(n);
  if (at != 0) {
    span = at & -at;
    const Stretch mine = PartsOf(segment, at, at + span, n);
    ZS_RETURN_IF_ERROR(
        exchange.Swap(-1, nullptr, 0, (at - span + root) % n, segment.out + mine.first * size, mine.count * size));
  }
  for (span /= 2; span > 0; span /= 2) {
    if (at + span >= n) continue;
    const Stretch theirs = PartsOf(segment, at + span, at + 2 * span, n);
    ZS_RETURN_IF_ERROR(
        exchange.Swap((at + span + root) % n, segment.out + theirs.first * size, theirs.count * size, -1, nullptr, 0));
  }
  return absl::OkStatus();
}

absl::Status Gather(Exchange& exchange, const HostSegment& segment, int root, int64_t size) {
  const int n = exchange.world_size();
  const int at = (exchange.rank() - root + n) % n;
  for (int step = 0; step < n - 1; ++step) {
    const int given = (at - step + n) % n;
    const int gotten = (at - step - 1 + n) % n;
    const Stretch mine = PartsOf(segment, given, given + 1, n);
    const Stretch next = PartsOf(segment, gotten, gotten + 1, n);
    ZS_RETURN_IF_ERROR(exchange.Swap((exchange.rank() + 1) % n, segment.out + mine.first * size, mine.count * size,
                                     (exchange.rank() + n - 1) % n, segment.out + next.first * size, next.count * size));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ScatterGatherBroadcast(Exchange& exchange, const HostCall& call) {
  for (const HostSegment& segment : call.segments) {
    ZS_RETURN_IF_ERROR(Scatter(exchange, segment, call.root, call.out_size()));
    ZS_RETURN_IF_ERROR(Gather(exchange, segment, call.root, call.out_size()));
  }
  return absl::OkStatus();
}

}  // namespace zeroshard::comm

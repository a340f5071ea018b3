#include "zeroshard/backends/nccl/tree_reductions.h"

#include <algorithm>

#include "zeroshard/device/cuda/cuda_status.h"
#include "zeroshard/device/cuda/reduce_kernels.h"
#include "zeroshard/device/reduce_spec.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::backends {
namespace {

using comm::Operation;
using comm::OpKind;
using comm::Segment;
using device::Array;

// What one rank is to add of a segment: rank p's part of a rank's `in` begins at First(p) and has Count(p) elements.
struct Parts {
  const Operation& operation;
  const Segment& segment;
  int world_size;

  int64_t First(int p) const {
    if (operation.kind == OpKind::kReduceScatter) return p * segment.stride;
    return operation.kind == OpKind::kAllReduce ? OwnPart(segment.in.elements(), p, world_size).first : 0;
  }
  int64_t Count(int p) const {
    switch (operation.kind) {
      case OpKind::kReduceScatter:
        return segment.out.elements();
      case OpKind::kAllReduce:
        return OwnPart(segment.in.elements(), p, world_size).count;
      default:
        return p == operation.root ? segment.in.elements() : 0;
    }
  }
  int64_t Most() const {
    int64_t most = 0;
    for (int p = 0; p < world_size; ++p) most = std::max(most, Count(p));
    return most;
  }
};

// A piece of every rank's part, [at, at + most) of it, cut at the part's end.
struct Piece {
  Parts parts;
  int64_t at;
  int64_t most;
  int64_t row_at;  // where it lies in a row of scratch

  int64_t Count(int p) const { return std::clamp<int64_t>(parts.Count(p) - at, 0, most); }
  // Of rank p's part, in this rank's input.
  Array In(int p) const { return parts.segment.in.Slice(parts.First(p) + at, Count(p)); }
  // Where rank p's sum goes in this rank's output.
  Array Out(int p) const {
    const int64_t first = parts.operation.kind == OpKind::kAllReduce ? parts.First(p) : 0;
    return parts.segment.out.Slice(first + at, Count(p));
  }
};

// One level: rows[world_size] of scratch, one for each rank's piece.
// Two: see "Note: Two levels" in tree_reductions.h.
class TreeReduction {
 public:
  TreeReduction(const Lane& lane, const Operation& operation)
      : lane_(lane),
        operation_(operation),
        two_levels_(lane.node_size > 1 && operation.kind != OpKind::kReduce),
        local_(two_levels_ ? lane.node_size : lane.world_size),
        nodes_(lane.world_size / local_),
        wide_(operation.in_dtype == device::DType::kFloat64 ? operation.in_dtype : device::DType::kFloat32),
        row_elements_(RowElements()),
        rows_(lane.scratch.As(operation.in_dtype).Slice(0, lane.world_size * row_elements_)),
        sums_(Wide(0)),
        others_sums_(Wide(1)) {}

  // Pieces of segments until a row is full, or they are as many as one group takes; one exchange for all of them, and on.
  absl::Status Run() {
    size_t segment = 0;
    int64_t at = 0;
    while (segment < operation_.segments.size()) {
      const size_t first_segment = segment;
      const int64_t first_at = at;
      Advance(segment, at);
      const auto each = [&](auto&& body) { return EachPiece(first_segment, first_at, segment, at, body); };
      ZS_RETURN_IF_ERROR(ExchangeParts(each));
      ZS_RETURN_IF_ERROR(each([this](const Piece& piece) { return AddParts(piece); }));
      if (two_levels_) {
        ZS_RETURN_IF_ERROR(ExchangeSums(each));
        ZS_RETURN_IF_ERROR(each([this](const Piece& piece) { return AddSums(piece); }));
      }
      if (operation_.kind == OpKind::kAllReduce) ZS_RETURN_IF_ERROR(Gather(each));
    }
    return absl::OkStatus();
  }

 private:
  // Rows begin where the GPU's widest loads may.
  static constexpr int64_t kRowMultiple = 16;

  int64_t RowElements() const {
    const int64_t sums = two_levels_ ? 2 * nodes_ * SizeOf(wide_) : 0;
    return lane_.scratch.bytes() / (lane_.world_size * SizeOf(operation_.in_dtype) + sums) / kRowMultiple * kRowMultiple;
  }
  // The nth stretch of [nodes][row] in fp32 (fp64), after the rows.
  Array Wide(int nth) const {
    if (!two_levels_) return {};
    const int64_t elements = nodes_ * row_elements_;
    return lane_.scratch.Slice(rows_.bytes(), lane_.scratch.bytes() - rows_.bytes())
        .As(wide_)
        .Slice(nth * elements, elements);
  }
  int node() const { return lane_.rank / local_; }
  int local_rank() const { return lane_.rank % local_; }
  // The rank of this one's place in its node, in another one.
  int Counterpart(int node) const { return node * local_ + local_rank(); }

  Parts PartsOf(size_t segment) const { return {operation_, operation_.segments[segment], lane_.world_size}; }

  // Moves on by as much as a row, and a group, holds.
  void Advance(size_t& segment, int64_t& at) const {
    const auto pieces = static_cast<size_t>(std::max(1, CallGroup::kCalls / (2 * lane_.world_size)));
    const size_t end = std::min(operation_.segments.size(), segment + pieces);
    int64_t room = row_elements_;
    while (segment < end) {
      const int64_t left = PartsOf(segment).Most() - at;
      if (left > room) {
        at += room;
        return;
      }
      room -= left;
      ++segment;
      at = 0;
    }
  }

  // body(piece) for the pieces from (segment, at) to the end position.
  template <class Body>
  absl::Status EachPiece(size_t segment, int64_t at, size_t end_segment, int64_t end_at, Body&& body) const {
    int64_t row_at = 0;
    for (; segment < end_segment || (segment == end_segment && at < end_at); ++segment, at = 0) {
      const Parts parts = PartsOf(segment);
      const int64_t most = (segment == end_segment ? end_at : parts.Most()) - at;
      ZS_RETURN_IF_ERROR(body(Piece{parts, at, most, row_at}));
      row_at += most;
    }
    return absl::OkStatus();
  }

  // body(to, from) for each step of a ring of `count`, of which this rank is number `me`.
  template <class Body>
  static absl::Status EachPeer(int me, int count, Body&& body) {
    for (int step = 1; step < count; ++step) ZS_RETURN_IF_ERROR(body((me + step) % count, (me + count - step) % count));
    return absl::OkStatus();
  }

  // Within the node, which is all ranks where there is one level: to each rank the pieces that it, and its counterparts in other nodes,
  // are to have. Rows are [local][nodes][row].
  template <class Each>
  absl::Status ExchangeParts(const Each& each) const {
    CallGroup group(lane_);
    ZS_RETURN_IF_ERROR(EachPeer(local_rank(), local_, [&](int to, int from) {
      return each([&](const Piece& piece) {
        for (int n = 0; n < nodes_; ++n) {
          group.Send(piece.In(n * local_ + to), node() * local_ + to);
          group.Receive(rows_.Slice((from * nodes_ + n) * row_elements_ + piece.row_at, piece.Count(Counterpart(n))),
                        node() * local_ + from);
        }
        return absl::OkStatus();
      });
    }));
    return group.End();
  }

  absl::Status AddParts(const Piece& piece) const {
    for (int n = 0; n < nodes_; ++n) {
      const int target = Counterpart(n);
      const int64_t count = piece.Count(target);
      if (count == 0) continue;
      const Array out = two_levels_ ? sums_.Slice(n * row_elements_ + piece.row_at, count) : piece.Out(target);
      const int64_t stride = nodes_ * row_elements_;
      ZS_RETURN_IF_ERROR(Add({.received = rows_.Slice(n * row_elements_ + piece.row_at, (local_ - 1) * stride + count),
                              .parts = local_,
                              .stride = stride,
                              .own = piece.In(target),
                              .own_part = local_rank()},
                             out, /*last=*/!two_levels_));
    }
    return absl::OkStatus();
  }

  // Between counterparts: to each the node's sum of its piece.
  template <class Each>
  absl::Status ExchangeSums(const Each& each) const {
    CallGroup group(lane_);
    ZS_RETURN_IF_ERROR(EachPeer(node(), nodes_, [&](int to, int from) {
      return each([&](const Piece& piece) {
        group.Send(sums_.Slice(to * row_elements_ + piece.row_at, piece.Count(Counterpart(to))), Counterpart(to));
        group.Receive(others_sums_.Slice(from * row_elements_ + piece.row_at, piece.Count(lane_.rank)), Counterpart(from));
        return absl::OkStatus();
      });
    }));
    return group.End();
  }

  absl::Status AddSums(const Piece& piece) const {
    const int64_t count = piece.Count(lane_.rank);
    if (count == 0) return absl::OkStatus();
    return Add({.received = others_sums_.Slice(piece.row_at, (nodes_ - 1) * row_elements_ + count),
                .parts = nodes_,
                .stride = row_elements_,
                .own = sums_.Slice(node() * row_elements_ + piece.row_at, count),
                .own_part = node()},
               piece.Out(lane_.rank), /*last=*/true);
  }

  absl::Status Add(const device::cuda::PartsOfRanks& parts, const Array& out, bool last) const {
    device::ReduceSpec spec{.in = parts.own.dtype(), .out = out.dtype()};
    if (operation_.op == comm::ReduceOp::kMax) spec.combine = device::Combine::kMax;
    if (operation_.op == comm::ReduceOp::kMin) spec.combine = device::Combine::kMin;
    if (operation_.op == comm::ReduceOp::kAverage && last) spec.divisor = lane_.world_size;
    ZS_RETURN_IF_ERROR(lane_.pace->Take(1));
    return device::cuda::CudaStatus(device::cuda::ReduceParts(lane_.native, spec, parts, out), "adding the ranks' parts");
  }

  // Every rank's sums to all others.
  template <class Each>
  absl::Status Gather(const Each& each) const {
    CallGroup group(lane_);
    ZS_RETURN_IF_ERROR(EachPeer(lane_.rank, lane_.world_size, [&](int to, int from) {
      return each([&](const Piece& piece) {
        group.Send(piece.Out(lane_.rank), to);
        group.Receive(piece.Out(from), from);
        return absl::OkStatus();
      });
    }));
    return group.End();
  }

  const Lane& lane_;
  const Operation& operation_;
  const bool two_levels_;
  const int local_;  // ranks of a node; of all where there is one level
  const int nodes_;
  const device::DType wide_;
  const int64_t row_elements_;
  const Array rows_;         // [local][nodes][row]
  const Array sums_;         // [nodes][row]: this node's sums of its and its counterparts' pieces
  const Array others_sums_;  // [nodes][row]: other nodes' sums of this rank's piece
};

}  // namespace

absl::Status ReduceByTree(const Lane& lane, const Operation& operation) { return TreeReduction(lane, operation).Run(); }

}  // namespace zeroshard::backends

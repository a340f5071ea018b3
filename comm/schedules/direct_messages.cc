#include "zeroshard/comm/schedules/direct_messages.h"

#include <algorithm>

#include "zeroshard/comm/schedules/own_part.h"
#include "zeroshard/comm/schedules/pieces.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::comm {
namespace {

// Pieces of each peer under way at once.
constexpr int kDepth = 4;
static_assert(kDepth <= kMaxInFlight);

// Bytes of a piece that goes straight from memory to memory: its message's fixed cost is small beside it.
constexpr int64_t kPlainBytes = int64_t{512} << 10;
// Transfers of a slot: receives of every rank, then sends to every rank; none where there is none.
struct SlotTransfers {
  std::span<Transfer> in;
  std::span<Transfer> out;
};

SlotTransfers TransfersOf(Exchange& exchange, int slot) {
  const size_t n = static_cast<size_t>(exchange.world_size());
  const std::span<Transfer> all = exchange.transfers().subspan(static_cast<size_t>(slot) * 2 * n, 2 * n);
  return {all.first(n), all.last(n)};
}

// Elements of a piece that is summed, such that all peers' pieces of kDepth slots fit in the scratch.
int64_t SummedElements(Exchange& exchange, int64_t size) {
  const int64_t room = static_cast<int64_t>(exchange.scratch().size()) / (kDepth * (exchange.world_size() - 1));
  const int64_t elements = std::min(room, exchange.transport().piece_bytes()) / size;
  return elements >= 64 ? elements / 64 * 64 : std::max<int64_t>(elements, 1);
}

std::byte* ScratchOf(const Exchange& exchange, int slot, int peer, int64_t piece_bytes) {
  const int64_t place = slot * (exchange.world_size() - 1) + (peer < exchange.rank() ? peer : peer - 1);
  return exchange.scratch().data() + place * piece_bytes;
}

// Waits for a piece of every peer, and sums them with this rank's own into `out`.
absl::Status SumPiece(Exchange& exchange, const HostCall& call, int slot, int64_t piece_bytes, const std::byte* own,
                      std::byte* out, int64_t count) {
  ZS_RETURN_IF_ERROR(exchange.WaitAll(TransfersOf(exchange, slot).in));
  if (count == 0) return absl::OkStatus();
  const std::span<const void*> parts = exchange.parts().first(static_cast<size_t>(exchange.world_size()));
  for (int p = 0; p < exchange.world_size(); ++p) {
    parts[static_cast<size_t>(p)] = p == exchange.rank() ? own : ScratchOf(exchange, slot, p, piece_bytes);
  }
  device::ReduceParts(WholeReduction(call, exchange.world_size()), parts, out, count);
  return absl::OkStatus();
}

}  // namespace

absl::Status ReducePartsByMessages(Exchange& exchange, const HostCall& call) {
  const int n = exchange.world_size();
  const int64_t elements = SummedElements(exchange, call.in_size());
  const int64_t piece_bytes = elements * call.in_size();
  const auto post = [&](const Piece& piece, int slot) {
    const SlotTransfers transfers = TransfersOf(exchange, slot);
    const int64_t mine = CountIn(PartOf(call, *piece.segment, exchange.rank(), n), piece.columns);
    for (const int p : exchange.peers()) {
      if (mine == 0) break;
      transfers.in[static_cast<size_t>(p)] =
          exchange.Receive(p, ScratchOf(exchange, slot, p, piece_bytes), mine * call.in_size());
    }
    for (const int p : exchange.peers()) {
      const Stretch part = PartOf(call, *piece.segment, p, n);
      const int64_t theirs = CountIn(part, piece.columns);
      if (theirs == 0) continue;
      const std::byte* from = piece.segment->in + (part.first + piece.columns.first) * call.in_size();
      transfers.out[static_cast<size_t>(p)] = exchange.Send(p, from, theirs * call.in_size());
    }
  };
  const auto complete = [&](const Piece& piece, int slot) -> absl::Status {
    const Stretch part = PartOf(call, *piece.segment, exchange.rank(), n);
    const std::byte* own = piece.segment->in + (part.first + piece.columns.first) * call.in_size();
    std::byte* out = ReducedPart(call, *piece.segment, exchange.rank(), n) + piece.columns.first * call.out_size();
    ZS_RETURN_IF_ERROR(SumPiece(exchange, call, slot, piece_bytes, own, out, CountIn(part, piece.columns)));
    return exchange.WaitAll(TransfersOf(exchange, slot).out);
  };
  return ForEachPiece(call, n, elements, kDepth, post, complete);
}

absl::Status GatherPartsByMessages(Exchange& exchange, const HostCall& call) {
  const int n = exchange.world_size();
  const int64_t size = call.out_size();
  const auto post = [&](const Piece& piece, int slot) {
    const SlotTransfers transfers = TransfersOf(exchange, slot);
    const Stretch own = PartOf(call, *piece.segment, exchange.rank(), n);
    const int64_t mine = CountIn(own, piece.columns);
    for (const int p : exchange.peers()) {
      const Stretch part = PartOf(call, *piece.segment, p, n);
      const int64_t theirs = CountIn(part, piece.columns);
      if (theirs == 0) continue;
      std::byte* to = piece.segment->out + (part.first + piece.columns.first) * size;
      transfers.in[static_cast<size_t>(p)] = exchange.Receive(p, to, theirs * size);
    }
    for (const int p : exchange.peers()) {
      if (mine == 0) break;
      const std::byte* from = piece.segment->out + (own.first + piece.columns.first) * size;
      transfers.out[static_cast<size_t>(p)] = exchange.Send(p, from, mine * size);
    }
  };
  const auto complete = [&](const Piece&, int slot) -> absl::Status {
    ZS_RETURN_IF_ERROR(exchange.WaitAll(TransfersOf(exchange, slot).in));
    return exchange.WaitAll(TransfersOf(exchange, slot).out);
  };
  return ForEachPiece(call, n, kPlainBytes / size, kDepth, post, complete);
}

absl::Status ReduceByMessages(Exchange& exchange, const HostCall& call) {
  const int n = exchange.world_size();
  const bool root = exchange.rank() == call.root;
  const int64_t elements = SummedElements(exchange, call.in_size());
  const int64_t piece_bytes = elements * call.in_size();
  const auto post = [&](const Piece& piece, int slot) {
    const SlotTransfers transfers = TransfersOf(exchange, slot);
    const int64_t bytes = piece.columns.count * call.in_size();
    if (!root) {
      transfers.out[0] = exchange.Send(call.root, piece.segment->in + piece.columns.first * call.in_size(), bytes);
      return;
    }
    for (const int p : exchange.peers()) {
      transfers.in[static_cast<size_t>(p)] = exchange.Receive(p, ScratchOf(exchange, slot, p, piece_bytes), bytes);
    }
  };
  const auto complete = [&](const Piece& piece, int slot) -> absl::Status {
    if (!root) return exchange.WaitAll(TransfersOf(exchange, slot).out);
    return SumPiece(exchange, call, slot, piece_bytes, piece.segment->in + piece.columns.first * call.in_size(),
                    piece.segment->out + piece.columns.first * call.out_size(), piece.columns.count);
  };
  return ForEachPiece(call, n, elements, kDepth, post, complete);
}

absl::Status BroadcastByMessages(Exchange& exchange, const HostCall& call) {
  const bool root = exchange.rank() == call.root;
  const int64_t size = call.out_size();
  const auto post = [&](const Piece& piece, int slot) {
    const SlotTransfers transfers = TransfersOf(exchange, slot);
    std::byte* data = piece.segment->out + piece.columns.first * size;
    const int64_t bytes = piece.columns.count * size;
    if (!root) {
      transfers.in[0] = exchange.Receive(call.root, data, bytes);
      return;
    }
    for (const int p : exchange.peers()) transfers.out[static_cast<size_t>(p)] = exchange.Send(p, data, bytes);
  };
  const auto complete = [&](const Piece&, int slot) -> absl::Status {
    ZS_RETURN_IF_ERROR(exchange.WaitAll(TransfersOf(exchange, slot).in));
    return exchange.WaitAll(TransfersOf(exchange, slot).out);
  };
  return ForEachPiece(call, exchange.world_size(), kPlainBytes / size, kDepth, post, complete);
}

}  // namespace zeroshard::comm

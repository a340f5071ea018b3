#include "zeroshard/comm/schedules/halving.h"

#include <algorithm>
#include <cstring>

#include "zeroshard/comm/schedules/own_part.h"
#include "zeroshard/comm/schedules/pieces.h"
#include "zeroshard/comm/schedules/tree.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::comm {
namespace {

using device::DType;

// The climb of one piece: the partial results that this rank holds, and one level after another.
//
// Note: the rooms of the scratch. `held_` has a column of `elements` for each part, `sent_` and `received_` what one level moves,
// packed by peer in the order of peers and parts: no more than all parts, each.
class Climb {
 public:
  Climb(Exchange& exchange, const HostCall& call)
      : exchange_(exchange),
        call_(call),
        rank_(exchange.rank()),
        n_(exchange.world_size()),
        one_part_(call.kind == OpKind::kReduce),
        parts_(one_part_ ? 1 : n_),
        type_(AccumulatorOf(call.in)),
        size_(SizeOf(type_)),
        elements_(std::max<int64_t>(static_cast<int64_t>(exchange.scratch().size()) / (3 * parts_ * size_), 1)) {
    std::byte* scratch = exchange.scratch().data();
    held_ = scratch;
    sent_ = scratch + parts_ * elements_ * size_;
    received_ = sent_ + parts_ * elements_ * size_;
  }

  int64_t elements() const { return elements_; }

  absl::Status Run(const Piece& piece) {
    piece_ = piece;
    raw_ = true;
    for (int level = 0; level < TreeLevels(n_); ++level) {
      ZS_RETURN_IF_ERROR(Move(level));
      Combine(level);
      raw_ = false;
    }
    if (one_part_ && rank_ != call_.root) return absl::OkStatus();
    Store();
    return absl::OkStatus();
  }

 private:
  int Part(int i) const { return one_part_ ? call_.root : i; }
  int64_t Count(int i) const { return CountIn(PartOf(call_, *piece_.segment, Part(i), n_), piece_.columns); }
  std::byte* Held(int i) const { return held_ + i * elements_ * size_; }
  const std::byte* Raw(int i) const {
    return piece_.segment->in + (PartOf(call_, *piece_.segment, Part(i), n_).first + piece_.columns.first) * call_.in_size();
  }
  int64_t MovedSize() const { return raw_ ? call_.in_size() : size_; }

  // Who holds part i below `level`'s join, in the half that this rank is in and in the other; peer -1: there is no other half.
  struct Join {
    int here;
    int peer;
    bool here_is_upper;
    int after;  // who holds it then
  };
  Join JoinOf(int level, int i) const {
    const int first = rank_ >> level << level;
    const int parent = rank_ >> (level + 1) << (level + 1);
    const int other = first == parent ? first + (1 << level) : parent;
    return {OwnerOf(first, level, Part(i), n_), other < n_ ? OwnerOf(other, level, Part(i), n_) : -1, first != parent,
            OwnerOf(parent, level + 1, Part(i), n_)};
  }
  bool Sends(const Join& join) const { return join.here == rank_ && join.peer >= 0 && join.after == join.peer; }
  bool Receives(const Join& join) const { return join.here == rank_ && join.peer >= 0 && join.after == rank_; }

  // Packs for every peer what it gets, and swaps with all of them.
  absl::Status Move(int level) {
    const std::span<Transfer> in = exchange_.transfers().first(static_cast<size_t>(n_));
    const std::span<Transfer> out = exchange_.transfers().subspan(static_cast<size_t>(n_), static_cast<size_t>(n_));
    std::byte* sent = sent_;
    std::byte* received = received_;
    for (const int peer : exchange_.peers()) {
      std::byte* const first_sent = sent;
      std::byte* const first_received = received;
      for (int i = 0; i < parts_; ++i) {
        const Join join = JoinOf(level, i);
        const int64_t bytes = Count(i) * MovedSize();
        if (join.peer != peer || bytes == 0) continue;
        if (Receives(join)) received += bytes;
        if (!Sends(join)) continue;
        std::memcpy(sent, raw_ ? Raw(i) : Held(i), static_cast<size_t>(bytes));
        sent += bytes;
      }
      const size_t p = static_cast<size_t>(peer);
      if (received > first_received) in[p] = exchange_.Receive(peer, first_received, received - first_received);
      if (sent > first_sent) out[p] = exchange_.Send(peer, first_sent, sent - first_sent);
    }
    ZS_RETURN_IF_ERROR(exchange_.WaitAll(in));
    return exchange_.WaitAll(out);
  }

  // Joins what came with what is held, the lower ranks' side first, and widens to the accumulator's type on the first level.
  void Combine(int level) {
    const device::ReduceSpec spec{.in = raw_ ? call_.in : type_, .out = type_, .combine = CombineOf(call_.op)};
    const std::byte* received = received_;
    for (const int peer : exchange_.peers()) {
      for (int i = 0; i < parts_; ++i) {
        const Join join = JoinOf(level, i);
        if (join.peer != peer || !Receives(join) || Count(i) == 0) continue;
        const void* const held = raw_ ? static_cast<const void*>(Raw(i)) : Held(i);
        const void* const both[] = {join.here_is_upper ? received : held, join.here_is_upper ? held : received};
        device::ReduceParts(spec, both, Held(i), Count(i));
        received += Count(i) * MovedSize();
      }
    }
    for (int i = 0; raw_ && i < parts_; ++i) {  // An odd one out passes up unchanged.
      const Join join = JoinOf(level, i);
      if (join.peer >= 0 || join.here != rank_ || Count(i) == 0) continue;
      const void* const alone[] = {Raw(i)};
      device::ReduceParts(spec, alone, Held(i), Count(i));
    }
  }

  // This rank's part, divided and rounded once.
  void Store() {
    const int i = one_part_ ? 0 : rank_;
    if (Count(i) == 0) return;
    device::ReduceSpec spec = WholeReduction(call_, n_);
    spec.in = type_;
    const void* const held[] = {Held(i)};
    std::byte* out = ReducedPart(call_, *piece_.segment, rank_, n_) + piece_.columns.first * call_.out_size();
    device::ReduceParts(spec, held, out, Count(i));
  }

  Exchange& exchange_;
  const HostCall& call_;
  const int rank_;
  const int n_;
  const bool one_part_;
  const int parts_;
  const DType type_;
  const int64_t size_;
  const int64_t elements_;
  std::byte* held_;
  std::byte* sent_;
  std::byte* received_;
  Piece piece_;
  bool raw_ = true;  // what is held is still this rank's input
};

absl::Status ClimbAll(Exchange& exchange, const HostCall& call) {
  Climb climb(exchange, call);
  for (PieceCursor pieces(call, exchange.world_size(), climb.elements()); !pieces.done(); pieces.Advance()) {
    ZS_RETURN_IF_ERROR(climb.Run(pieces.piece()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status HalvingReduceParts(Exchange& exchange, const HostCall& call) { return ClimbAll(exchange, call); }
absl::Status BinomialReduce(Exchange& exchange, const HostCall& call) { return ClimbAll(exchange, call); }

}  // namespace zeroshard::comm

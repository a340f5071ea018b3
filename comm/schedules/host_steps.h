// HostSteps: a schedule that goes within hosts and between them, in steps of two halves, with several of them under way at once, so
// that neither way waits for the other.
//
// A step is a piece (pieces.h) and a turn in [0, hosts): which host's parts of the piece are under way. All ranks take the steps in
// the same order. Begin posts what the first half takes; Turn waits for that and posts the second half; End waits for this.
//
// HostStepRank is what such a schedule knows of its rank, and has of transfers.
//
// Example:
//   ZS_RETURN_IF_ERROR(RunHostSteps({call, world_size, elements, grid.hosts},
//                                   [&](const HostStep& step) { post },
//                                   [&](const HostStep& step) -> absl::Status { wait; post },
//                                   [&](const HostStep& step) { return wait; }));
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "zeroshard/comm/schedules/exchange.h"
#include "zeroshard/comm/schedules/host_call.h"
#include "zeroshard/comm/schedules/host_grid.h"
#include "zeroshard/comm/schedules/pieces.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::comm {

// Steps that are begun and have not ended; those of them that may be past their first half.
inline constexpr int kStepsBegun = 3;
inline constexpr int kStepsTurned = 2;

struct HostStep {
  Piece piece;
  int64_t piece_number = 0;
  int turn = 0;
  int slot = 0;  // in [0, kStepsBegun): its own until it ends
};

class HostStepCursor {
 public:
  HostStepCursor(const HostCall& call, int world_size, int64_t elements, int turns)
      : pieces_(call, world_size, elements), turns_(turns) {}

  bool done() const { return pieces_.done(); }
  int64_t number() const { return number_; }
  HostStep step() const {
    return {pieces_.piece(), number_ / turns_, static_cast<int>(number_ % turns_), static_cast<int>(number_ % kStepsBegun)};
  }
  void Advance() {
    if (++number_ % turns_ == 0) pieces_.Advance();
  }

 private:
  PieceCursor pieces_;
  int turns_;
  int64_t number_ = 0;
};

class HostStepRank {
 public:
  HostStepRank(Exchange& exchange, const HostCall& call, const HostGrid& grid)
      : exchange_(exchange),
        call_(call),
        grid_(grid),
        n_(exchange.world_size()),
        me_(exchange.rank()),
        host_(grid.HostOf(me_)),
        place_(grid.PlaceOf(me_)) {}

 protected:
  // Of the step's piece, in a rank's part: the first element in the segment, and how many there are.
  int64_t First(const HostStep& step, int part) const {
    return PartOf(call_, *step.piece.segment, part, n_).first + step.piece.columns.first;
  }
  int64_t Count(const HostStep& step, int part) const {
    return CountIn(PartOf(call_, *step.piece.segment, part, n_), step.piece.columns);
  }

  // Nothing is sent of no bytes. At most one transfer each way with each rank in a step.
  void Send(const HostStep& step, int to, const void* data, int64_t bytes) {
    if (bytes > 0) Out(step)[static_cast<size_t>(to)] = exchange_.Send(to, data, bytes);
  }
  void Receive(const HostStep& step, int from, void* data, int64_t bytes) {
    if (bytes > 0) In(step)[static_cast<size_t>(from)] = exchange_.Receive(from, data, bytes);
  }
  // Of a step, by rank.
  std::span<Transfer> In(const HostStep& step) const { return Transfers(2 * step.slot); }
  std::span<Transfer> Out(const HostStep& step) const { return Transfers(2 * step.slot + 1); }
  absl::Status WaitAll(const HostStep& step) {
    ZS_RETURN_IF_ERROR(exchange_.WaitAll(In(step)));
    return exchange_.WaitAll(Out(step));
  }

  Exchange& exchange_;
  const HostCall& call_;
  const HostGrid grid_;
  const int n_;
  const int me_;
  const int host_;
  const int place_;

 private:
  std::span<Transfer> Transfers(int row) const {
    return exchange_.transfers().subspan(static_cast<size_t>(row * n_), static_cast<size_t>(n_));
  }
};

// `first`: a cursor at the first step.
template <class Begin, class Turn, class End>
absl::Status RunHostSteps(const HostStepCursor& first, Begin begin, Turn turn, End end) {
  HostStepCursor begun = first;
  HostStepCursor turned = first;
  for (HostStepCursor ended = first; !ended.done(); ended.Advance()) {
    for (; !begun.done() && begun.number() - ended.number() < kStepsBegun; begun.Advance()) begin(begun.step());
    for (; turned.number() < begun.number() && turned.number() - ended.number() < kStepsTurned; turned.Advance()) {
      ZS_RETURN_IF_ERROR(turn(turned.step()));
    }
    ZS_RETURN_IF_ERROR(end(ended.step()));
  }
  return absl::OkStatus();
}

}  // namespace zeroshard::comm

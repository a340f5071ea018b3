// HostSteps: a schedule that goes within hosts and between them, in steps of two halves, with several of them under way at once, so
// that neither way waits for the other.
//
// A step is a piece (pieces.h) and a turn in [0, hosts): which host's parts of the piece are under way. All ranks take the steps in
// the same order. Begin posts what the first half takes; Turn waits for that and posts the second half; End waits for this.
//
// Example:
//   ZS_RETURN_IF_ERROR(RunHostSteps({call, world_size, elements, grid.hosts},
//                                   [&](const HostStep& step) { post },
//                                   [&](const HostStep& step) -> absl::Status { wait; post },
//                                   [&](const HostStep& step) { return wait; }));
#pragma once

#include <cstdint>

#include "absl/status/status.h"
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

// What comes next: what the last pass over the units ran is the guess for this one, TrainingPasses at first. A unit may come several
// times in a pass. A wrong guess costs a gather that nobody uses, never more.
//
// Forward is one pass; backward is one, with what it recomputes.
//
// Example: three units, each used once a pass, none recomputed.
//   UnitOrder order({1, 1, 1}, {false, false, false});
//   order.Visit({0, Pass::kForward});
//   order.Ahead();       // {1, kForward}, {2, kForward}, until a pass went another way
//   order.Backward();    // {2, kBackward}, {1, kBackward}, {0, kBackward}: what comes after forward
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "zeroshard/zero/pass.h"

namespace zeroshard::zero {

class UnitOrder {
 public:
  // Of each unit: how often a pass runs it, and whether it is recomputed.
  UnitOrder(std::vector<int> uses, const std::vector<bool>& recomputed);

  // The unit is about to be run. A pass ends where the direction changes, or a unit comes more often than its uses.
  void Visit(UnitPass at);
  // The pass is over: it is the guess for the next one.
  void EndPass();
  // The pass was broken off: the guess is as it was before it.
  void ForgetPass();

  // What is expected after the last Visit of this pass, the next one first; nothing before a pass's first.
  std::span<const UnitPass> Ahead() const;
  // What a whole backward pass is expected to run, in order.
  std::span<const UnitPass> Backward() const { return expected_[1]; }

 private:
  static size_t Direction(UnitPass at) { return at.pass == Pass::kForward ? 0 : 1; }
  int& times(UnitPass at) { return times_[static_cast<size_t>(at.pass)][at.unit]; }

  std::vector<int> uses_;                          // [unit]
  std::array<std::vector<UnitPass>, 2> expected_;  // [direction]
  std::vector<UnitPass> ran_;                      // in this pass
  std::array<std::vector<int>, 3> times_;          // [pass][unit]: in this pass
  size_t position_ = 0;                            // in expected_[direction_], of what comes next
  size_t direction_ = 0;
};

}  // namespace zeroshard::zero

// Which unit comes next: what the last pass did is the guess for this one, the order of the list at first. A wrong guess costs a
// gather that nobody uses, never more.
//
// Example:
//   order.Visit(3, Pass::kForward);
//   order.Next(3, Pass::kForward);   // 4, until a pass went another way; -1 at its end
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "zeroshard/zero/pass.h"

namespace zeroshard::zero {

class UnitOrder {
 public:
  explicit UnitOrder(int units);

  // The unit is about to be run. A pass ends where the direction changes or a unit comes again.
  void Visit(int unit, Pass pass);
  // Whatever was under way is over.
  void EndPass();

  int Next(int unit, Pass pass) const { return next_[static_cast<size_t>(pass)][unit]; }
  // Whether the last forward pass ended with this unit: then backward begins with it.
  bool EndsForward(int unit) const { return unit == ends_forward_; }

 private:
  std::array<std::vector<int>, 2> next_;  // [pass][unit]
  std::vector<int64_t> seen_in_;          // [unit]: the number of the last pass that ran it
  int64_t pass_number_ = 1;
  Pass pass_ = Pass::kForward;
  int last_ = -1;
  int ends_forward_;
};

}  // namespace zeroshard::zero

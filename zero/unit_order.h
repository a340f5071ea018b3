// What comes next: what the last pass over the units did is the guess for this one, TrainingPasses at first. A wrong guess costs a
// gather that nobody uses, never more.
//
// Forward is one pass; backward is one, with what it recomputes.
//
// Example:
//   order.Visit({3, Pass::kForward});
//   order.Next({3, Pass::kForward});   // {4, kForward}, until a pass went another way; unit -1 at its end
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "zeroshard/zero/pass.h"

namespace zeroshard::zero {

class UnitOrder {
 public:
  // `recomputed`: of each unit.
  explicit UnitOrder(const std::vector<bool>& recomputed);

  // The unit is about to be run. A pass ends where the direction changes or a unit comes again.
  void Visit(UnitPass at);
  // Whatever was under way is over.
  void EndPass();

  UnitPass Next(UnitPass at) const { return nodes_[static_cast<size_t>(at.pass)][at.unit].next; }
  // Whether the last forward pass ended with this unit: then backward begins with it.
  bool EndsForward(int unit) const { return unit == ends_forward_; }

 private:
  struct Node {
    UnitPass next = {};
    int64_t seen_in = 0;  // the number of the last pass that ran it
  };
  Node& node(UnitPass at) { return nodes_[static_cast<size_t>(at.pass)][at.unit]; }

  std::array<std::vector<Node>, 3> nodes_;  // [pass][unit]
  int64_t pass_number_ = 1;
  UnitPass last_ = {};
  int ends_forward_;
};

}  // namespace zeroshard::zero

// What of a section a rank's optimizer works on, and where that lies in the optimizer's state: all of it in stage 0, the rank's own
// part in the others.
//
// Example:
//   Holding h = HoldingOf(layout, options.stage, rank, section);
//   optimizer.Apply(compute, {.first = h.state_first, .weights = weights.Slice(...), ...});
#pragma once

#include <cstdint>

#include "zeroshard/zero/engine_options.h"
#include "zeroshard/zero/layout.h"

namespace zeroshard::zero {

struct Holding {
  Range range;              // of the section
  int64_t state_first = 0;  // where range.first lies in the optimizer's flat state
};

inline Holding HoldingOf(const Layout& layout, int stage, int rank, int section) {
  const Section& s = layout.sections()[section];
  if (!ShardsOptimizer(stage)) return {{0, s.elements}, s.full_first};
  return {s.Owned(rank), s.shard_first[rank]};
}

// Elements of the optimizer's flat state on `rank`.
inline int64_t StateElements(const Layout& layout, int stage, int rank) {
  return ShardsOptimizer(stage) ? layout.OwnedTrainable(rank) : layout.trainable_elements();
}

}  // namespace zeroshard::zero

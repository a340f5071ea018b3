// What of a rank's optimizer state is offloaded, and in which sub-groups its update goes through buffers: arithmetic from a
// layout and options alone, by which both the update and the formulas go.
//
// The flat state of a rank (holding.h) is cut in two: elements 0 ... first - 1 stay in device memory (offload_ratio below 1),
// the rest is offloaded, and cut into sub-groups of sub_group_size elements, rounded up to what a file's pages or the layout's
// alignment want. Muon's matrices are cut nowhere: its sub-groups are whole parameters, as many as come to sub_group_size, or one.
//
// Example:
//   OffloadPlan plan = OffloadPlanOf(layout, options, rank);
//   for (int64_t g = 0; g < plan.groups; ++g) Update(plan.Group(g));
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "zeroshard/zero/engine_options.h"
#include "zeroshard/zero/layout.h"

namespace zeroshard::zero {

// Elements of a sub-group in a file divide by this: whole pages of 4096 bytes, of two-byte elements too.
inline constexpr int64_t kFileGroupElements = 2048;

struct OffloadPlan {
  int64_t elements = 0;        // of the rank's state
  int64_t first = 0;           // from here on it is offloaded
  int64_t group_elements = 0;  // of a sub-group; the last one may have fewer, and any one of Muon's
  int64_t groups = 0;
  // Sub-groups that are in buffers at once. In host memory two: while one is updated, the next one's gradients come and the
  // last one's parameters go. In a file three: one is read, one is updated, one is written.
  int64_t buffers = 0;
  // Stages 2 and 3: the reduced gradients of what is offloaded are in host memory too. In stage 1 they are a part of the
  // gradients that the rank has in device memory anyway, and come down with the update; so do sums of micro-batches that are added
  // by a tree (world_invariant), of which there are several.
  bool offloads_gradients = false;
  int states = 0;                    // fp32 arrays that are kept for each element: masters of two-byte parameters, moments
  std::vector<int64_t> bounds = {};  // Muon's: where each sub-group begins, and the last one ends

  int64_t offloaded() const { return elements - first; }
  int64_t GroupOf(int64_t element) const {
    if (bounds.empty()) return (element - first) / group_elements;
    return std::upper_bound(bounds.begin(), bounds.end(), element) - bounds.begin() - 1;
  }
  // Its elements of the state.
  Range Group(int64_t group) const {
    if (!bounds.empty()) return {bounds[group], bounds[group + 1] - bounds[group]};
    const int64_t begin = first + group * group_elements;
    return {begin, std::min(group_elements, elements - begin)};
  }
};

OffloadPlan OffloadPlanOf(const Layout& layout, const EngineOptions& options, int rank);

}  // namespace zeroshard::zero

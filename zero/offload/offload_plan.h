// What of a rank's optimizer state is offloaded, and in which sub-groups its update goes through buffers: arithmetic from a
// layout and options alone, by which both the update and the formulas go.
//
// The flat state of a rank (holding.h) is cut in two: elements 0 ... first - 1 stay in device memory (offload_ratio below 1),
// the rest is offloaded, and cut into sub-groups of sub_group_size elements, rounded up to what a file's pages or the layout's
// alignment want.
//
// Example:
//   OffloadPlan plan = OffloadPlanOf(layout, options, rank);
//   for (int64_t g = 0; g < plan.groups; ++g) Update(plan.Group(g));
#pragma once

#include <algorithm>
#include <cstdint>

#include "zeroshard/device/dtype.h"
#include "zeroshard/optim/optimizer.h"
#include "zeroshard/zero/engine_options.h"
#include "zeroshard/zero/holding.h"
#include "zeroshard/zero/layout.h"
#include "zeroshard/zero/micro_batch_tree.h"
#include "zeroshard/zero/precision.h"

namespace zeroshard::zero {

// Elements of a sub-group in a file divide by this: whole pages of 4096 bytes, of two-byte elements too.
inline constexpr int64_t kFileGroupElements = 2048;

struct OffloadPlan {
  int64_t elements = 0;        // of the rank's state
  int64_t first = 0;           // from here on it is offloaded
  int64_t group_elements = 0;  // of a sub-group; the last one may have fewer
  int64_t groups = 0;
  // Sub-groups that are in buffers at once. In host memory two: while one is updated, the next one's gradients come and the
  // last one's parameters go. In a file three: one is read, one is updated, one is written.
  int64_t buffers = 0;
  // Stages 2 and 3: the reduced gradients of what is offloaded are in host memory too. In stage 1 they are a part of the
  // gradients that the rank has in device memory anyway, and come down with the update; so do sums of micro-batches that are added
  // by a tree (world_invariant), of which there are several.
  bool offloads_gradients = false;
  int states = 0;  // fp32 arrays that are kept for each element: masters of two-byte parameters, moments

  int64_t offloaded() const { return elements - first; }
  int64_t GroupOf(int64_t element) const { return (element - first) / group_elements; }
  // Its elements of the state.
  Range Group(int64_t group) const {
    const int64_t begin = first + group * group_elements;
    return {begin, std::min(group_elements, elements - begin)};
  }
};

inline OffloadPlan OffloadPlanOf(const Layout& layout, const EngineOptions& options, int rank) {
  OffloadPlan plan;
  plan.elements = StateElements(layout, options.stage, rank);
  plan.first = plan.elements;
  plan.states = (PrecisionOf(options, layout.ranks()).has_masters() ? 1 : 0) +
                static_cast<int>(optim::StateNames(options.optimizer).size());
  if (options.offload_optimizer.target == OffloadTarget::kNone || !ShardsOptimizer(options.stage)) return plan;
  const double resident = static_cast<double>(plan.elements) * (1 - options.offload_ratio);
  plan.first = static_cast<int64_t>(resident) / kAlignmentElements * kAlignmentElements;
  if (plan.offloaded() == 0) return plan;
  plan.offloads_gradients = ShardsGradients(options.stage) && TreeBuffers(options) == 0;
  const bool in_file =
      options.offload_optimizer.target == OffloadTarget::kFile || options.offload_parameters.target == OffloadTarget::kFile;
  plan.group_elements =
      RoundUp(std::min(options.sub_group_size, plan.offloaded()), in_file ? kFileGroupElements : kAlignmentElements);
  plan.groups = (plan.offloaded() + plan.group_elements - 1) / plan.group_elements;
  plan.buffers = std::min<int64_t>(in_file ? 3 : 2, plan.groups);
  return plan;
}

}  // namespace zeroshard::zero

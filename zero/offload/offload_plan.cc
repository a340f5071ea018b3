#include "zeroshard/zero/offload/offload_plan.h"

#include "zeroshard/optim/optimizer.h"
#include "zeroshard/zero/holding.h"
#include "zeroshard/zero/micro_batch_tree.h"
#include "zeroshard/zero/parts.h"
#include "zeroshard/zero/precision.h"

namespace zeroshard::zero {
namespace {

// Where what stays in device memory ends: at most `resident` elements, of whole parameters where they may not be cut.
int64_t FirstOf(const std::vector<Part>& whole, int64_t elements, int64_t resident) {
  if (resident >= elements) return elements;
  if (whole.empty()) return resident / kAlignmentElements * kAlignmentElements;
  int64_t first = 0;
  for (const Part& part : whole) {
    if (part.state_first <= resident) first = part.state_first;
  }
  return first;
}

// Sub-groups of whole parameters from `first` to `end`.
std::vector<int64_t> BoundsOf(const std::vector<Part>& whole, int64_t first, int64_t end, int64_t most) {
  std::vector<int64_t> bounds = {first};
  for (const Part& part : whole) {
    if (part.state_first > bounds.back() && part.state_first + part.held.count - bounds.back() > most) {
      bounds.push_back(part.state_first);
    }
  }
  bounds.push_back(end);
  return bounds;
}

int64_t LongestOf(const std::vector<int64_t>& bounds) {
  int64_t longest = 0;
  for (size_t i = 1; i < bounds.size(); ++i) longest = std::max(longest, bounds[i] - bounds[i - 1]);
  return longest;
}

}  // namespace

OffloadPlan OffloadPlanOf(const Layout& layout, const EngineOptions& options, int rank) {
  OffloadPlan plan;
  plan.elements = StateElements(layout, options.stage, rank);
  plan.first = plan.elements;
  plan.states = (PrecisionOf(options, layout.ranks()).has_masters() ? 1 : 0) +
                static_cast<int>(optim::StateNames(options.optimizer).size());
  if (options.offload_optimizer.target == OffloadTarget::kNone || !ShardsOptimizer(options.stage)) return plan;
  const bool muon = options.optimizer.kind == optim::Kind::kMuon;
  const std::vector<Part> whole = muon ? PartsOf(layout, options.stage, rank) : std::vector<Part>();
  const double resident = static_cast<double>(plan.elements) * (1 - options.offload_ratio);
  plan.first = FirstOf(whole, plan.elements, static_cast<int64_t>(resident));
  if (plan.offloaded() == 0) return plan;
  plan.offloads_gradients = ShardsGradients(options.stage) && TreeBuffers(options) == 0;
  const bool in_file =
      options.offload_optimizer.target == OffloadTarget::kFile || options.offload_parameters.target == OffloadTarget::kFile;
  int64_t elements = std::min(options.sub_group_size, plan.offloaded());
  if (muon) {
    plan.bounds = BoundsOf(whole, plan.first, plan.elements, options.sub_group_size);
    elements = LongestOf(plan.bounds);
  }
  plan.group_elements = RoundUp(elements, in_file ? kFileGroupElements : kAlignmentElements);
  plan.groups = muon ? static_cast<int64_t>(plan.bounds.size()) - 1
                     : (plan.offloaded() + plan.group_elements - 1) / plan.group_elements;
  plan.buffers = std::min<int64_t>(in_file ? 3 : 2, plan.groups);
  return plan;
}

}  // namespace zeroshard::zero

#include "zeroshard/zero/gather_plan.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"

namespace zeroshard::zero {
namespace {

constexpr int64_t kNoBound = std::numeric_limits<int64_t>::max();

bool Reads(const Layout& layout, UnitPass at) {
  return at.pass != Pass::kBackward || layout.units()[at.unit].backward_reads_parameters;
}

std::vector<UnitPass> PassesOf(const Layout& layout) {
  std::vector<bool> recomputed;
  for (const UnitLayout& unit : layout.units()) recomputed.push_back(unit.recomputed);
  return model::TrainingPasses(recomputed);
}

// Most units with own sections that are within what may be gathered ahead of one, in forward or in backward.
int MostSlotsAhead(const Layout& layout, const EngineOptions& options, const std::vector<UnitPass>& passes) {
  const auto forward = [](UnitPass at) { return at.pass == Pass::kForward; };
  int most = 0;
  for (size_t from = 0; from < passes.size(); ++from) {
    int64_t elements = 0;
    int ahead = 0, slots = 0;
    for (size_t i = from + 1; i < passes.size() && forward(passes[i]) == forward(passes[from]); ++i) {
      const int64_t needed = GatheredElements(layout, passes[i].unit);
      if (needed == 0 || !Reads(layout, passes[i])) continue;
      elements += needed;
      if (++ahead > MostUnitsAhead(options) || elements > MostElementsAhead(options)) break;
      slots += layout.OwnElements(passes[i].unit) > 0;
    }
    most = std::max(most, slots);
  }
  return most;
}

// What lies between a pass of a unit and the next that reads its parameters.
struct Stretch {
  size_t next = 0;  // index of that pass; 0: there is none
  int64_t distance = 0;
  int64_t elements = 0;  // of all sections that are gathered on the way, the unit's own included, each once
  int units = 0;         // with own sections, each once
};

Stretch StretchFrom(const Layout& layout, const std::vector<UnitPass>& passes, size_t at) {
  Stretch stretch;
  std::vector<bool> seen_units(layout.units().size()), seen(layout.sections().size());
  const auto meet = [&](int u) {
    if (!seen_units[u]) stretch.units += layout.OwnElements(u) > 0;
    seen_units[u] = true;
    for (int s : layout.units()[u].sections) {
      if (!layout.sections()[s].persistent && !seen[s]) stretch.elements += layout.sections()[s].elements;
      seen[s] = true;
    }
  };
  meet(passes[at].unit);
  for (size_t i = at + 1; i < passes.size(); ++i) {
    if (!Reads(layout, passes[i])) continue;
    if (passes[i].unit == passes[at].unit) {
      stretch.next = i;
      return stretch;
    }
    stretch.distance += GatheredElements(layout, passes[i].unit);
    meet(passes[i].unit);
  }
  return stretch;
}

bool IsWanted(const EngineOptions& options, const Stretch& stretch, size_t at) {
  if (stretch.next == 0) return false;
  if (options.keep_parameters || stretch.next == at + 1) return true;
  return options.max_reuse_distance > 0 && stretch.distance <= options.max_reuse_distance;
}

// Most units with own sections that are kept or run at one time.
int MostSlotsKept(const Layout& layout, const EngineOptions& options, const std::vector<UnitPass>& passes) {
  std::vector<int> at_once(passes.size());
  for (size_t i = 0; i < passes.size(); ++i) {
    if (layout.OwnElements(passes[i].unit) == 0 || !Reads(layout, passes[i])) continue;
    ++at_once[i];
    const Stretch stretch = StretchFrom(layout, passes, i);
    if (!IsWanted(options, stretch, i)) continue;
    for (size_t j = i + 1; j < stretch.next; ++j) ++at_once[j];
  }
  return *std::max_element(at_once.begin(), at_once.end());
}

}  // namespace

int64_t MostElementsAhead(const EngineOptions& options) {
  if (!options.overlap) return 0;
  return options.prefetch_bucket_size > 0 ? options.prefetch_bucket_size : kNoBound;
}

int MostUnitsAhead(const EngineOptions& options) {
  return options.overlap && options.prefetch_bucket_size > 0 ? std::numeric_limits<int>::max() : EffectivePrefetch(options);
}

int64_t MostLiveElements(const EngineOptions& options) {
  return options.max_live_parameters > 0 ? options.max_live_parameters : kNoBound;
}

int64_t GatheredElements(const Layout& layout, int unit) {
  int64_t n = 0;
  for (int s : layout.units()[unit].sections) {
    if (!layout.sections()[s].persistent) n += layout.sections()[s].elements;
  }
  return n;
}

GatherPlan PlanGathers(const Layout& layout, const EngineOptions& options) {
  GatherPlan plan;
  int units = 0;  // that have anything of their own to gather
  for (int u = 0; u < static_cast<int>(layout.units().size()); ++u) {
    const int64_t own = layout.OwnElements(u);
    plan.slot_elements = std::max(plan.slot_elements, own);
    plan.own_elements += own;
    units += own > 0;
  }
  for (const Section& section : layout.sections()) {
    if (section.shared && !section.persistent) plan.tied_elements += section.elements;
  }
  const std::vector<UnitPass> passes = PassesOf(layout);
  const int wanted = options.keep_parameters
                         ? units
                         : std::max(MostSlotsKept(layout, options, passes), 1 + MostSlotsAhead(layout, options, passes));
  plan.slots = std::min(wanted, units);
  if (plan.slots > 0) {
    const int64_t room = (MostLiveElements(options) - plan.tied_elements) / plan.slot_elements;
    plan.slots = static_cast<int>(std::min<int64_t>(plan.slots, std::max<int64_t>(1, room)));
  }
  plan.one_each = plan.slots == units;
  return plan;
}

std::vector<PlannedPass> PlanPasses(const Layout& layout, const EngineOptions& options) {
  const GatherPlan plan = PlanGathers(layout, options);
  const std::vector<UnitPass> passes = PassesOf(layout);
  std::vector<PlannedPass> planned;
  for (size_t i = 0; i < passes.size(); ++i) {
    if (!Reads(layout, passes[i])) continue;
    const Stretch stretch = StretchFrom(layout, passes, i);
    const bool fits = stretch.units <= std::max(1, plan.slots) && stretch.elements <= MostLiveElements(options);
    planned.push_back({.unit = passes[i].unit, .keeps = fits && IsWanted(options, stretch, i)});
  }
  return planned;
}

absl::Status CheckLiveParameters(const Layout& layout, const EngineOptions& options) {
  if (!ShardsParameters(options.stage)) return absl::OkStatus();
  int largest = 0;
  for (int u = 1; u < static_cast<int>(layout.units().size()); ++u) {
    if (GatheredElements(layout, u) > GatheredElements(layout, largest)) largest = u;
  }
  const int64_t needed = GatheredElements(layout, largest);
  if (needed <= MostLiveElements(options)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("max_live_parameters is ", options.max_live_parameters, ", but unit ",
                                                 layout.units()[largest].name, " alone gathers ", needed,
                                                 " elements (padded); raise it to that, or leave it at 0 for no bound"));
}

}  // namespace zeroshard::zero

// How much of the parameters stage 3 has gathered at once: the slots that units are gathered into, and what stays in them from one
// use to the next. Arithmetic over a layout alone, for micro-batches that run model::TrainingPasses.
//
// A **slot** takes the own sections of one unit, and is as large as the largest of them needs. There is one for the unit that
// computes and one for each that may be gathered ahead of it, or one for each that is kept at a time where those are more. With
// as many slots as units, each unit has its own, just as large as it needs. A tied parameter always has a slot of its own.
//
// Example:
//   PlanGathers(layout, options).Elements();          // of all slots
//   for (const PlannedPass& pass : PlanPasses(layout, options)) ...
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "zeroshard/zero/engine_options.h"
#include "zeroshard/zero/layout.h"
#include "zeroshard/zero/pass.h"

namespace zeroshard::zero {

struct GatherPlan {
  int slots = 0;              // of units' own sections
  bool one_each = false;      // each unit has its own, of its size
  int64_t slot_elements = 0;  // of each, unless one_each
  int64_t own_elements = 0;   // of all units' own sections
  int64_t tied_elements = 0;  // of all tied parameters
  int64_t Elements() const { return (one_each ? own_elements : slots * slot_elements) + tied_elements; }
};

GatherPlan PlanGathers(const Layout& layout, const EngineOptions& options);

// A pass that reads a unit's parameters, and whether they stay gathered to the unit's next one: that follows at once, or within
// max_reuse_distance, or keep_parameters is on; and slots and max_live_parameters have room for it and all that runs in between.
struct PlannedPass {
  int unit = 0;
  bool keeps = false;
};
// In order.
std::vector<PlannedPass> PlanPasses(const Layout& layout, const EngineOptions& options);

// Elements that a unit needs gathered when it computes: its own and tied sections, but for persistent ones.
int64_t GatheredElements(const Layout& layout, int unit);

// Elements of units that may be gathered ahead of the one that computes, and units that may.
int64_t MostElementsAhead(const EngineOptions& options);
int MostUnitsAhead(const EngineOptions& options);

// Elements that may be gathered at once.
int64_t MostLiveElements(const EngineOptions& options);

// Errors: kInvalidArgument where max_live_parameters has no room for the largest unit, naming it.
absl::Status CheckLiveParameters(const Layout& layout, const EngineOptions& options);

}  // namespace zeroshard::zero

// What a micro-batch does with units, one after another: forward, backward in reverse, and, where only the input of a group of units
// was kept of their forward, their forward once more in between.
//
// Note: Recomputation. Of a group of consecutive units, all but the last are `recomputed` (UnitSpec). When backward comes to the
// group, the recomputed ones run forward again, first to last, each with its own parameters; the last runs again inside its own
// backward, for which it has its parameters anyway; and then backward goes through the group. So a group of one costs no parameter
// twice, and of a longer one each recomputed unit is gathered once more under ZeRO stage 3.
//
// Example: three units, of which the first two are a group.
//   TrainingPasses({false, false, false});  // F0 F1 F2 B2 B1 B0
//   TrainingPasses({true, false, false});   // F0 F1 F2 B2 R0 B1 B0
#pragma once

#include <cstdint>
#include <vector>

#include "zeroshard/model/unit.h"

namespace zeroshard::model {

// Which way a unit is about to be run.
enum class Pass : uint8_t { kForward, kRecompute, kBackward };

struct UnitPass {
  int unit = -1;
  Pass pass = Pass::kForward;
  bool operator==(const UnitPass&) const = default;
};

// All that a training micro-batch runs, in order. `recomputed`: of each unit.
std::vector<UnitPass> TrainingPasses(const std::vector<bool>& recomputed);
std::vector<UnitPass> TrainingPasses(const std::vector<UnitSpec>& units);

}  // namespace zeroshard::model

#include "zeroshard/model/unit_pass.h"

namespace zeroshard::model {

std::vector<UnitPass> TrainingPasses(const std::vector<bool>& recomputed) {
  const int units = static_cast<int>(recomputed.size());
  std::vector<UnitPass> passes;
  for (int u = 0; u < units; ++u) passes.push_back({u, Pass::kForward});
  for (int u = units - 1; u >= 0; --u) {
    int first = u;
    while (!recomputed[u] && first > 0 && recomputed[first - 1]) --first;
    for (int r = first; r < u; ++r) passes.push_back({r, Pass::kRecompute});
    passes.push_back({u, Pass::kBackward});
  }
  return passes;
}

std::vector<UnitPass> TrainingPasses(const std::vector<UnitSpec>& units) {
  std::vector<bool> recomputed;
  for (const UnitSpec& unit : units) recomputed.push_back(unit.recomputed);
  return TrainingPasses(recomputed);
}

}  // namespace zeroshard::model

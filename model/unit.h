// Units: what a model is to ZeRO. A list of units, each a list of named parameters; a unit is gathered, computed and dropped as
// one, its gradients are ready as one.
//
// Example:
//   UnitSpec block{.name = "block.0", .parameters = {{.name = "block.0.fc.weight", .shape = {1536, 384}},
//                                                    {.name = "block.0.fc.bias", .shape = {1536}, .group = kNoDecay}}};
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace zeroshard::model {

// A parameter as its model sees it: full name, full shape. A dimension may be 0.
struct ParameterSpec {
  std::string name;
  std::vector<int64_t> shape;
  // Parameter group: an index into the optimizer's groups.
  int group = 0;
  // A frozen parameter (false) has no gradient, no moments, and is never written by the optimizer.
  bool trainable = true;
  // Begins frozen, though it is trainable: it has its state and counts as trainable from the start, but no gradient until it is
  // unfrozen.
  bool frozen = false;
  // The name of an earlier parameter that this one is, or empty: one storage, one gradient (the sum), one optimizer state. The
  // shapes are equal.
  std::string tied_to = {};
};

struct UnitSpec {
  std::string name;
  std::vector<ParameterSpec> parameters;
  // Whether backward reads the unit's parameters; where it does not (an embedding), backward gathers nothing.
  bool backward_reads_parameters = true;
  // How often a micro-batch runs the unit: its gradients are ready that many times, and are the sum.
  int uses = 1;
  // Whether a training micro-batch runs the unit's forward once more before its backward (unit_pass.h, Note: Recomputation).
  bool recomputed = false;
};

inline int64_t Elements(const ParameterSpec& parameter) {
  int64_t n = 1;
  for (int64_t d : parameter.shape) n *= d;
  return n;
}

}  // namespace zeroshard::model

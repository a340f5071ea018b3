// The trainable parameters' parts on which one rank's optimizer works: what the norm and the update go over, padding left out.
//
// Example:
//   for (const Part& part : PartsOf(layout, options.stage, rank)) Use(gradients.Held(part.section).Slice(part.held.first, ...));
#pragma once

#include <cstdint>
#include <vector>

#include "zeroshard/optim/optimizer.h"
#include "zeroshard/zero/engine_options.h"
#include "zeroshard/zero/layout.h"

namespace zeroshard::zero {

struct Part {
  int parameter = 0;  // Layout::parameters
  int section = 0;
  int group = 0;            // the parameter's
  Range held = {};          // within what the rank holds of the section (HoldingOf)
  int64_t state_first = 0;  // where it begins in the optimizer's flat state
  bool frozen = false;      // for now: no gradient, no update
};

// In order of the state.
std::vector<Part> PartsOf(const Layout& layout, int stage, int rank);

// The same as an optimizer's runs: with its shape, where a part is a whole matrix.
std::vector<optim::Run> RunsOf(const Layout& layout, const std::vector<Part>& parts);

}  // namespace zeroshard::zero

// The trainable parameters' parts on which one rank's optimizer works: what the norm and the update go over, padding left out.
//
// Example:
//   for (std::span<const Part> of_section : BySection(PartsOf(layout, options.stage, rank))) {
//     const Range held = HullOf(of_section);
//     Use(gradients.Held(of_section.front().section).Slice(held.first, held.count));
//   }
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "zeroshard/device/array.h"
#include "zeroshard/device/stream.h"
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

// Those of each section, one section after another. `parts`, in order of the state, outlives them.
std::vector<std::span<const Part>> BySection(std::span<const Part> parts);

// From where the first of a section's parts begins to where the last one ends: in what the rank holds, and as long in the state.
Range HullOf(std::span<const Part> of_section);

// sum += the squares of those parts of a section that are not frozen, by AddPowers. `held`: what the rank holds of the section's
// gradient; sum: [kExactSumWords] int64.
void AddSquaresOf(device::Stream& stream, std::span<const Part> of_section, const device::Array& held, device::InOut sum);

// The same as an optimizer's runs: with its shape, where a part is a whole matrix.
std::vector<optim::Run> RunsOf(const Layout& layout, const std::vector<Part>& parts);

}  // namespace zeroshard::zero

// GPT-2's initial weights: matrices normal with deviation 0.02, those that add to the residual stream 0.02 / sqrt(2 layers), norms'
// weights 1, biases 0.
//
// A value is a function of the seed, the parameter's name and the element's index alone (a counter-based generator): it does not
// matter which rank computes it, nor in which order.
//
// Example:
//   std::vector<float> values(Elements(parameter));
//   Initialize(parameter, options.layers, /*seed=*/1337, /*first=*/0, values);
#pragma once

#include <cstdint>
#include <span>

#include "zeroshard/model/unit.h"

namespace zeroshard::model {

// Fills `values` with elements [first, first + values.size()) of the parameter, in row-major order of its shape.
void Initialize(const ParameterSpec& parameter, int64_t layers, uint64_t seed, int64_t first, std::span<float> values);

}  // namespace zeroshard::model

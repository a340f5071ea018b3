// Gives every parameter of a run its first value, drawn from a seed.
//
// Example:
//   ZS_RETURN_IF_ERROR(InitializeWeights(*engine, units, layers, /*seed=*/1337, rank));
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "zeroshard/model/unit.h"
#include "zeroshard/zero/engine.h"

namespace zeroshard::trainer {

// Collective. What rank 0 draws is what all ranks get, whatever seed the others were given. Errors: as Engine::WriteParameter.
absl::Status InitializeWeights(zero::Engine& engine, const std::vector<model::UnitSpec>& units, int64_t layers,
                               uint64_t seed, int rank);

}  // namespace zeroshard::trainer

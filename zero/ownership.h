// Who owns which parameter, in Partition::kTensor.
//
// Example:
//   std::vector<int> owners = AssignOwners(Ownership::kBalanced, {100, 60, 50}, /*world_size=*/2);   // {0, 1, 1}
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "zeroshard/zero/engine_options.h"

namespace zeroshard::zero {

// The rank that owns each of the parameters of these sizes. The same on every rank; of equals, the lowest rank and the first
// parameter. A rank may own none.
std::vector<int> AssignOwners(Ownership owner, std::span<const int64_t> elements, int world_size);

}  // namespace zeroshard::zero

// Whether options go with a number of ranks: known before any rank is started.
//
// Example:
//   ZS_RETURN_IF_ERROR(CheckWorld(options, plan.world_size));
#pragma once

#include "absl/status/status.h"
#include "zeroshard/zero/engine_options.h"

namespace zeroshard::zero {

// `options` are valid (Validate). Errors: kInvalidArgument, naming the option, its value, the ranks, and what is allowed: a shard_size
// that does not divide them; world_invariant where sums do not nest.
absl::Status CheckWorld(const EngineOptions& options, int world_size);

}  // namespace zeroshard::zero

// Whether a model goes with options and a number of ranks, and its offloaded state with the disks that it is to lie on: known before any
// rank is started.
//
// Example:
//   ZS_RETURN_IF_ERROR(CheckModel(units, options, plan.world_size, /*ranks_here=*/plan.world_size));
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "zeroshard/model/unit.h"
#include "zeroshard/zero/engine_options.h"

namespace zeroshard::zero {

// `options` are valid (Validate), and go with the ranks (CheckWorld). `ranks_here`: so many of them, the first, are going to make their
// files on this machine; 0: not known, and their folders are not looked at.
// Errors: kInvalidArgument: max_live_parameters has no room for some unit, which is named; a folder has less room than the files take.
absl::Status CheckModel(const std::vector<model::UnitSpec>& units, const EngineOptions& options, int world_size,
                        int ranks_here);

}  // namespace zeroshard::zero

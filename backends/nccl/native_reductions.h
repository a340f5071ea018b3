// Reductions of NCCL's own, with our scale and conversion after them. See "Note: Reductions" in collectives.h.
#pragma once

#include "absl/status/status.h"
#include "zeroshard/backends/nccl/lane.h"
#include "zeroshard/comm/operation.h"

namespace zeroshard::backends {

// All-reduce, reduce-scatter or reduce, queued on the lane's stream. Not of floats' maximum or minimum.
absl::Status ReduceNatively(const Lane& lane, const comm::Operation& operation);

}  // namespace zeroshard::backends

// One operation of each kind, so that NCCL connects and allocates what it wants before the first step.
//
// Example:
//   ZS_RETURN_IF_ERROR(WarmUp(lane, handle, thread, timeout));
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "zeroshard/backends/nccl/comm_handle.h"
#include "zeroshard/backends/nccl/lane.h"
#include "zeroshard/backends/nccl/nccl_thread.h"

namespace zeroshard::backends {

// Collective over the lane's ranks; in its scratch, of one float for each rank at least. Errors: NCCL's, the device's, kDeadlineExceeded.
absl::Status WarmUp(const Lane& lane, std::shared_ptr<CommHandle> handle, NcclThread& thread, absl::Duration timeout);

}  // namespace zeroshard::backends

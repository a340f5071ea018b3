// NCCL's results as statuses, with NCCL's own words.
//
// Example:
//   ZS_RETURN_IF_ERROR(NcclStatus(ncclCommFinalize(comm), "ncclCommFinalize", comm));
#pragma once

#include <nccl.h>

#include <string>

#include "absl/status/status.h"

namespace zeroshard::backends {

// OK, or which call failed, how NCCL names the failure, and what ncclGetLastError says of it.
// Errors: kUnavailable a peer, the network or the device failed; kInternal a call of ours that NCCL refuses, or a fault inside NCCL.
absl::Status NcclStatus(ncclResult_t result, const char* call, ncclComm_t comm = nullptr);

// "2.28.9", of a NCCL_VERSION_CODE.
std::string VersionText(int code);

}  // namespace zeroshard::backends

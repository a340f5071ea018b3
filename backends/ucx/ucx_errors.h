// UCX's status codes as absl::Status, with UCX's own words.
//
// Example:
//   ZS_RETURN_IF_ERROR(FromUcx(ucp_worker_arm(worker), "arming the worker"));
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "ucs/type/status.h"

namespace zeroshard::backends {

// `doing` says what failed: "UCX: Connection reset by remote peer (sending to rank 2)".
// Errors: kUnavailable the peer or the way to it is gone; kResourceExhausted memory; kDeadlineExceeded; kInternal all else.
absl::Status FromUcx(ucs_status_t status, std::string_view doing);

}  // namespace zeroshard::backends

// The one place where Gloo's exceptions are caught: they become an absl::Status with Gloo's own words.
//
// Example:
//   ZS_RETURN_IF_ERROR(CallGloo([&] { buffer->send(peer, slot, offset, bytes); }));
#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace zeroshard::backends {

// Runs `call`, whose allocations are counted as the vendor's. Allocates nothing of ours where it does not throw.
// Errors: kUnavailable an I/O error, in words such as "Gloo: Connection closed by peer"; kInternal whatever else Gloo objects to;
// kResourceExhausted memory.
absl::Status CallGloo(absl::FunctionRef<void()> call);

}  // namespace zeroshard::backends

// AllowOnly: who may connect to a socket that listens. The system drops what comes from elsewhere, as if nobody listened.
//
// Example:
//   ZS_RETURN_IF_ERROR(AllowOnly(listener, {{"10.0.0.1", "10.0.0.2"}}));  // these two
//   ZS_RETURN_IF_ERROR(AllowOnly(listener, {}));                          // nobody, any more
#pragma once

#include <span>
#include <string>

#include "absl/status/status.h"

namespace zeroshard::backends {

// `socket`: of TCP over IPv4 or IPv6, bound; `sources`: addresses, of which those of another family match nothing. Connections that it
// takes from now on inherit it.
// Errors, after which the socket is as before: kInvalidArgument `socket` is no such socket; kPermissionDenied, kResourceExhausted what the
// system says of a filter, or of one so long.
absl::Status AllowOnly(int socket, std::span<const std::string> sources);

}  // namespace zeroshard::backends

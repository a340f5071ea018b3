// A rank's connection to the rendezvous, up to the moment that gRPC takes it over.
//
// Example:
//   absl::StatusOr<Socket> socket = ConnectToRendezvous({"node1", 29500}, token, absl::Now() + absl::Seconds(5));
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "zeroshard/comm/rendezvous/service_address.h"
#include "zeroshard/comm/socket.h"

namespace zeroshard::comm {

// One try at each address that the host resolves to: a connected, non-blocking socket that has shown `token` and was welcomed.
// Errors: kUnauthenticated somebody listens there and refuses the token; kUnavailable nobody answers, or not as a rendezvous does:
// with the address and the system's words.
absl::StatusOr<Socket> ConnectToRendezvous(const ServiceAddress& address, std::string_view token, absl::Time deadline);

}  // namespace zeroshard::comm

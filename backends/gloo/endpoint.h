// What a rank publishes of itself in the store: where it listens, by which token it knows its peers, and on which host it is.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(Endpoint endpoint, ParseEndpoint(1, "10.0.0.3 41234 0123456789abcdef0123456789abcdef"));
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace zeroshard::backends {

struct Endpoint {
  std::string address = {};  // numeric
  int port = 0;
  std::string token = {};  // kTokenBytes of greeting.h
};

// As the store has it: "ADDRESS PORT TOKEN".
std::string FormatEndpoint(const Endpoint& endpoint);

// Errors: kUnavailable what `rank` published is none; the text is shown.
absl::StatusOr<Endpoint> ParseEndpoint(int rank, const std::string& text);

// The same for processes that reach each other over loopback: one boot of one machine, one network namespace.
std::string HostIdentity();

}  // namespace zeroshard::backends

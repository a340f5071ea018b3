// The Gloo backend: collectives over TCP, on host memory. Linking it registers it as "gloo".
//
// Example:
//   ZS_ASSIGN_OR_RETURN(std::unique_ptr<comm::Communicator> communicator,
//                       comm::CreateCommunicator("gloo", {.device = device, .store = store, .rank = 0, .world_size = 2}));
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "zeroshard/comm/backend_registry.h"
#include "zeroshard/comm/communicator.h"

namespace zeroshard::backends {

// Collective over the job's ranks. BackendOptions::interface: see comm/network_address.h.
// Errors: kInvalidArgument the options, the interface; kDeadlineExceeded, naming the ranks that did not come; the store's.
absl::StatusOr<std::unique_ptr<comm::Communicator>> MakeGlooCommunicator(const comm::BackendOptions& options);

}  // namespace zeroshard::backends

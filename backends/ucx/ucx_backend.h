// The UCX backend: collectives over shared memory on one host and over UCX's networks between hosts, on host memory. Linking it
// registers it as "ucx".
//
// Example:
//   ZS_ASSIGN_OR_RETURN(std::unique_ptr<comm::Communicator> communicator,
//                       comm::CreateCommunicator("ucx", {.device = device, .store = store, .rank = 0, .world_size = 2}));
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "zeroshard/comm/backend_registry.h"
#include "zeroshard/comm/communicator.h"

namespace zeroshard::backends {

// Collective over the job's ranks. Communicator::Allocate is collective too, and gives memory that ranks of one host read in place.
// Errors: kInvalidArgument the options, the interface; kDeadlineExceeded, naming the ranks that did not come;
// UCX's; the store's.
absl::StatusOr<std::unique_ptr<comm::Communicator>> MakeUcxCommunicator(const comm::BackendOptions& options);

}  // namespace zeroshard::backends

// The NCCL backend: collectives of GPUs, on device/cuda's memory and streams. Linking it, whole, registers it as "nccl".
//
// Example:
//   ZS_ASSIGN_OR_RETURN(std::unique_ptr<comm::Communicator> communicator,
//                       comm::CreateCommunicator("nccl", {.device = cuda_device, .store = store, .rank = 0, .world_size = 2}));
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/comm/backend_registry.h"
#include "zeroshard/comm/communicator.h"

namespace zeroshard::backends {

// Errors: kInvalidArgument: the network interface that --bind or NCCL_SOCKET_IFNAME names is not there, with those that are; NCCL is older
// than built against.
absl::Status CheckNcclSurroundings(const comm::BackendOptions& options);

// As MakeNcclCommunicator (nccl_communicator.h), by a tool's options.
absl::StatusOr<std::unique_ptr<comm::Communicator>> MakeNcclBackend(const comm::BackendOptions& options);

}  // namespace zeroshard::backends

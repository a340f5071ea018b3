// The NCCL backend: collectives of GPUs, on device/cuda's memory and streams. Linking it, whole, registers it as "nccl".
//
// Example:
//   ZS_ASSIGN_OR_RETURN(std::unique_ptr<comm::Communicator> communicator,
//                       comm::CreateCommunicator("nccl", {.device = cuda_device, .store = store, .rank = 0, .world_size = 2}));
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "zeroshard/comm/backend_registry.h"
#include "zeroshard/comm/communicator.h"

namespace zeroshard::backends {

// As MakeNcclCommunicator (nccl_communicator.h), by a tool's options.
absl::StatusOr<std::unique_ptr<comm::Communicator>> MakeNcclBackend(const comm::BackendOptions& options);

}  // namespace zeroshard::backends

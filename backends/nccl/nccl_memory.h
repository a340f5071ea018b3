// What the NCCL backend takes of a GPU's memory for itself. Stands without CUDA: a process that starts ranks asks before it opens any of it.
// Linking it, whole, registers the formula for "nccl".
//
// Example:
//   NcclMemory({.world_size = 8}).device_bytes;
#pragma once

#include <cstdint>

#include "zeroshard/comm/backend_memory.h"

namespace zeroshard::backends {

// Scratch of collectives, where nobody says otherwise.
inline constexpr int64_t kNcclScratchBytes = int64_t{64} << 20;

// One rank communicates with nobody, and takes nothing. NCCL's own buffers are not in it.
comm::BackendMemory NcclMemory(const comm::MemoryRequest& request);

}  // namespace zeroshard::backends

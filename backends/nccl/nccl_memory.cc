#include "zeroshard/backends/nccl/nccl_memory.h"

#include <algorithm>

#include "zeroshard/comm/backend_registry.h"

namespace zeroshard::backends {
namespace {

// The library is linked whole (alwayslink), so that naming it in deps is enough.
[[maybe_unused]] const bool kRegistered = comm::RegisterMemory("nccl", &NcclMemory);

// Of which any operation needs as many.
int64_t LeastScratchBytes(int world_size) { return int64_t{512} * (world_size + 1); }

}  // namespace

comm::BackendMemory NcclMemory(const comm::MemoryRequest& request) {
  if (request.world_size == 1) return {};
  const int64_t wanted = request.scratch_bytes > 0 ? request.scratch_bytes : kNcclScratchBytes;
  return {.device_bytes = std::max(wanted, LeastScratchBytes(request.world_size))};
}

}  // namespace zeroshard::backends

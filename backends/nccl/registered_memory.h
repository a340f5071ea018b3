// Device memory that NCCL reaches directly: ncclMemAlloc, registered once: as a symmetric window where all ranks' sizes are one and NCCL
// has such windows here, else by ncclCommRegister, else not at all (which is logged).
//
// Example: on every rank, in the same order,
//   ZS_ASSIGN_OR_RETURN(Buffer scratch, AllocateRegistered({.device = &device, ...}, bytes, Use::kCommunication, "scratch"));
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "zeroshard/backends/nccl/comm_handle.h"
#include "zeroshard/backends/nccl/group_notes.h"
#include "zeroshard/backends/nccl/nccl_thread.h"
#include "zeroshard/device/buffer.h"
#include "zeroshard/device/device.h"

namespace zeroshard::backends {

struct RegisterOptions {
  device::Device* device = nullptr;
  device::Stream* stream = nullptr;  // of the thread that calls NCCL
  std::shared_ptr<CommHandle> handle;
  std::shared_ptr<NcclThread> thread;
  GroupNotes* notes = nullptr;
  int rank = 0;
  int world_size = 1;
  int64_t nth = 0;  // of this communicator: counts its allocations
  absl::Duration timeout;
};

// Collective; sizes may differ. Zeroed memory, filed under `use`. The Buffer is dropped before the communicator.
// Errors: kResourceExhausted, with the ledger's table, on every rank where one has no room; kDeadlineExceeded.
absl::StatusOr<device::Buffer> AllocateRegistered(const RegisterOptions& options, int64_t bytes, device::Use use,
                                                  std::string_view what);

}  // namespace zeroshard::backends

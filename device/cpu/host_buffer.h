// Host memory as a Buffer that the ledger knows of: what device/cpu allocates, and every host device's staging memory.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(Buffer stage, AllocateHostBuffer(bytes, Use::kCommunication, "stage", ledger));
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "zeroshard/device/buffer.h"
#include "zeroshard/device/cpu/host_memory_source.h"
#include "zeroshard/device/memory_ledger.h"

namespace zeroshard::device {

// Device::Allocate's promises; the Buffer's address is the host's. `ledger`, and `source` where the memory is to
// come from there, outlive the Buffer.
absl::StatusOr<Buffer> AllocateHostBuffer(int64_t bytes, Use use, std::string_view what, MemoryLedger& ledger,
                                          HostMemorySource* source = nullptr);

// `why`, said of `what`, with what would need less; in lines of their own, the ledger's table.
absl::Status AllocationError(const absl::Status& why, std::string_view what, const MemoryLedger& ledger);

}  // namespace zeroshard::device

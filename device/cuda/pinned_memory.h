// Pinned host memory in a few pieces: CUDA is asked to pin a piece when there is no room left, and an empty piece is given back.
//
// Thread-safe.
//
// Example:
//   PinnedMemory memory(/*ordinal=*/0, /*piece_bytes=*/2 << 20);
//   std::unique_ptr<Device> host = MakeCpuDevice({.memory = &memory});
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "absl/status/statusor.h"
#include "zeroshard/device/cpu/host_memory.h"
#include "zeroshard/device/cpu/host_memory_source.h"
#include "zeroshard/device/cuda/held_bytes.h"
#include "zeroshard/device/free_ranges.h"

namespace zeroshard::device::cuda {

class PinnedMemory final : public HostMemorySource {
 public:
  // Pieces of `piece_bytes`, or as large as an allocation that is larger. Whatever GPU copies, `ordinal` is asked.
  PinnedMemory(int ordinal, int64_t piece_bytes) : ordinal_(ordinal), piece_bytes_(piece_bytes) {}

  // Errors: as HostMemory::Map; kResourceExhausted where so much cannot be pinned, with the remedy.
  absl::StatusOr<void*> Allocate(int64_t bytes) override;
  void Free(void* data, int64_t bytes) override;

  HeldBytes held();

 private:
  absl::Status NewPiece(int64_t bytes);

  const int ordinal_;
  const int64_t piece_bytes_;
  std::mutex mutex_;
  FreeRanges free_;
  std::map<uint64_t, HostMemory> pieces_;
  HeldBytes held_;
};

}  // namespace zeroshard::device::cuda

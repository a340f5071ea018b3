// Device memory in a few large pieces: cudaMalloc is asked for a piece when there is no room left, and pieces stay until the end, or until
// somebody says that it is time to give back what is unused: that waits for all that the GPU does.
//
// Thread-safe.
//
// Example:
//   CudaMemory memory(/*ordinal=*/0, /*piece_bytes=*/64 << 20);
//   ZS_ASSIGN_OR_RETURN(uint64_t address, memory.Allocate(1000));
//   memory.Free(address, 1000);
#pragma once

#include <cstdint>
#include <mutex>

#include "absl/status/statusor.h"
#include "zeroshard/device/cuda/held_bytes.h"
#include "zeroshard/device/free_ranges.h"

namespace zeroshard::device::cuda {

class CudaMemory {
 public:
  // Pieces of `piece_bytes`, or as large as an allocation that is larger. 0: each allocation is a piece, given back when it is freed.
  CudaMemory(int ordinal, int64_t piece_bytes) : ordinal_(ordinal), piece_bytes_(piece_bytes) {}
  ~CudaMemory();
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;

  // [bytes > 0], aligned to kAlignmentBytes; its content is anything.
  // Errors: kResourceExhausted with what the GPU has left.
  absl::StatusOr<uint64_t> Allocate(int64_t bytes);
  void Free(uint64_t address, int64_t bytes);

  // Gives pieces that are larger than others back to CUDA, where nothing of them is in use.
  void GiveBackUnused();

  HeldBytes held();

 private:
  absl::Status NewPiece(int64_t bytes);

  const int ordinal_;
  const int64_t piece_bytes_;
  std::mutex mutex_;
  FreeRanges free_;
  HeldBytes held_;
};

}  // namespace zeroshard::device::cuda

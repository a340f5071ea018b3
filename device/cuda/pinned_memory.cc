#include "zeroshard/device/cuda/pinned_memory.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/cuda/cuda_status.h"
#include "zeroshard/device/round_up.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::device::cuda {
namespace {

// HostMemorySource's; files are read and written past the page cache from such memory.
constexpr int64_t kPageBytes = 4096;

int64_t InPages(int64_t bytes) { return RoundUp(bytes, kPageBytes); }

}  // namespace

absl::Status PinnedMemory::NewPiece(int64_t bytes) {
  ZS_ASSIGN_OR_RETURN(HostMemory memory, HostMemory::Map(bytes));
  ZS_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(ordinal_), "selecting the device"));
  const cudaError_t error = cudaHostRegister(memory.data(), static_cast<size_t>(bytes), cudaHostRegisterPortable);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // not sticky
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot pin ", bytes, " bytes of host memory; raise the limit of locked memory (ulimit -l)"));
  }
  ZS_RETURN_IF_ERROR(CudaStatus(error, absl::StrCat("pinning ", bytes, " bytes")));
  const uint64_t address = reinterpret_cast<uint64_t>(memory.data());
  free_.AddPiece(address, bytes);
  pieces_.emplace(address, std::move(memory));
  held_.taken += bytes;
  return absl::OkStatus();
}

absl::StatusOr<void*> PinnedMemory::Allocate(int64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  const int64_t wanted = InPages(bytes);
  std::optional<uint64_t> address = free_.Take(wanted);
  if (address) {
    std::memset(reinterpret_cast<void*>(*address), 0, static_cast<size_t>(wanted));  // somebody may have had it before
  } else {
    ZS_RETURN_IF_ERROR(NewPiece(std::max(wanted, InPages(piece_bytes_))));
    address = free_.Take(wanted);
  }
  held_.asked += bytes;
  return reinterpret_cast<void*>(*address);
}

void PinnedMemory::Free(void* data, int64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  held_.asked -= bytes;
  const uint64_t address = reinterpret_cast<uint64_t>(data);
  free_.Give(address, InPages(bytes));
  const std::optional<uint64_t> piece = free_.FreePieceAt(address);
  if (!piece) return;
  cudaSetDevice(ordinal_);
  cudaHostUnregister(reinterpret_cast<void*>(*piece));
  held_.taken -= free_.pieces().at(*piece);
  free_.DropPiece(*piece);
  pieces_.erase(*piece);
}

HeldBytes PinnedMemory::held() {
  std::lock_guard<std::mutex> lock(mutex_);
  return held_;
}

}  // namespace zeroshard::device::cuda

#include "zeroshard/device/cuda/cuda_memory.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/cuda/cuda_status.h"
#include "zeroshard/device/device.h"
#include "zeroshard/device/round_up.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::device::cuda {
namespace {

int64_t Aligned(int64_t bytes) { return RoundUp(bytes, kAlignmentBytes); }

}  // namespace

CudaMemory::~CudaMemory() {
  cudaSetDevice(ordinal_);
  for (const auto& [address, bytes] : free_.pieces()) cudaFree(reinterpret_cast<void*>(address));
}

absl::Status CudaMemory::NewPiece(int64_t bytes) {
  ZS_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(ordinal_), "selecting the device"));
  void* address = nullptr;
  const cudaError_t error = cudaMalloc(&address, static_cast<size_t>(bytes));
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // not sticky: the next call is not to find it
    size_t free_bytes = 0, total_bytes = 0;
    cudaMemGetInfo(&free_bytes, &total_bytes);
    return absl::ResourceExhaustedError(
        absl::StrCat("the GPU has no ", bytes, " bytes: ", free_bytes, " of its ", total_bytes, " are free"));
  }
  ZS_RETURN_IF_ERROR(CudaStatus(error, absl::StrCat("allocating ", bytes, " bytes")));
  free_.AddPiece(reinterpret_cast<uint64_t>(address), bytes);
  held_.taken += bytes;
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> CudaMemory::Allocate(int64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  const int64_t wanted = piece_bytes_ == 0 ? bytes : Aligned(bytes);
  std::optional<uint64_t> address = free_.Take(wanted);
  if (!address) {
    ZS_RETURN_IF_ERROR(NewPiece(std::max(wanted, piece_bytes_)));
    address = free_.Take(wanted);
  }
  held_.asked += bytes;
  return *address;
}

void CudaMemory::Free(uint64_t address, int64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  held_.asked -= bytes;
  if (piece_bytes_ > 0) return free_.Give(address, Aligned(bytes));
  held_.taken -= bytes;
  free_.DropPiece(address);
  cudaSetDevice(ordinal_);
  cudaFree(reinterpret_cast<void*>(address));
}

void CudaMemory::GiveBackUnused() {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<uint64_t> unused;
  for (const auto& [address, bytes] : free_.pieces()) {
    if (bytes > piece_bytes_ && free_.FreePieceAt(address)) unused.push_back(address);
  }
  if (unused.empty()) return;
  cudaSetDevice(ordinal_);
  for (const uint64_t address : unused) {
    held_.taken -= free_.pieces().at(address);
    free_.DropPiece(address);
    cudaFree(reinterpret_cast<void*>(address));
  }
}

HeldBytes CudaMemory::held() {
  std::lock_guard<std::mutex> lock(mutex_);
  return held_;
}

}  // namespace zeroshard::device::cuda

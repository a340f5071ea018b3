#include "zeroshard/device/cuda/cuda_memory.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/cuda/cuda_status.h"
#include "zeroshard/device/device.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::device::cuda {
namespace {

int64_t RoundUp(int64_t bytes) { return (bytes + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes; }

}  // namespace

CudaMemory::~CudaMemory() {
  cudaSetDevice(ordinal_);
  for (const auto& [address, bytes] : pieces_) cudaFree(reinterpret_cast<void*>(address));
}

absl::StatusOr<uint64_t> CudaMemory::NewPiece(int64_t bytes) {
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
  const uint64_t piece = reinterpret_cast<uint64_t>(address);
  pieces_.emplace(piece, bytes);
  held_.taken_bytes += bytes;
  return piece;
}

absl::StatusOr<uint64_t> CudaMemory::Allocate(int64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (piece_bytes_ == 0) {
    ZS_ASSIGN_OR_RETURN(const uint64_t piece, NewPiece(bytes));
    held_.asked_bytes += bytes;
    return piece;
  }
  const int64_t wanted = RoundUp(bytes);
  // The smallest that it fits into.
  auto chosen = free_.end();
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (it->second >= wanted && (chosen == free_.end() || it->second < chosen->second)) chosen = it;
  }
  if (chosen == free_.end()) {
    const int64_t piece_bytes = std::max(wanted, piece_bytes_);
    ZS_ASSIGN_OR_RETURN(const uint64_t piece, NewPiece(piece_bytes));
    chosen = free_.emplace(piece, piece_bytes).first;
  }
  const auto [address, room] = *chosen;
  free_.erase(chosen);
  if (room > wanted) free_.emplace(address + static_cast<uint64_t>(wanted), room - wanted);
  held_.asked_bytes += bytes;
  return address;
}

void CudaMemory::Free(uint64_t address, int64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  held_.asked_bytes -= bytes;
  if (piece_bytes_ == 0) {
    held_.taken_bytes -= bytes;
    pieces_.erase(address);
    cudaFree(reinterpret_cast<void*>(address));
    return;
  }
  AddFree(address, RoundUp(bytes));
}

CudaMemory::Held CudaMemory::held() {
  std::lock_guard<std::mutex> lock(mutex_);
  return held_;
}

void CudaMemory::AddFree(uint64_t address, int64_t bytes) {
  const auto end = [](const auto& range) { return range.first + static_cast<uint64_t>(range.second); };
  auto next = free_.lower_bound(address);
  // Never across pieces, which were allocated apart.
  if (next != free_.end() && next->first == address + static_cast<uint64_t>(bytes) && !pieces_.contains(next->first)) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin() && end(*std::prev(next)) == address && !pieces_.contains(address)) {
    std::prev(next)->second += bytes;
    return;
  }
  free_.emplace(address, bytes);
}

}  // namespace zeroshard::device::cuda

#include "zeroshard/device/cuda/cuda_status.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace zeroshard::device::cuda {
namespace {

absl::StatusCode CodeOf(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return absl::StatusCode::kResourceExhausted;
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
      return absl::StatusCode::kUnimplemented;
    default:
      return absl::StatusCode::kUnavailable;
  }
}

}  // namespace

absl::Status CudaStatus(cudaError_t error, std::string_view doing) {
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::Status(CodeOf(error),
                      absl::StrCat(std::string(doing), ": ", cudaGetErrorString(error), " (", cudaGetErrorName(error), ")"));
}

}  // namespace zeroshard::device::cuda

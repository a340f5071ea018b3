// CUDA's errors as ours.
//
// Example:
//   ZS_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(3), "selecting device 3"));
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

#include "absl/status/status.h"

namespace zeroshard::device::cuda {

// "copying to the host: an illegal memory access was encountered (cudaErrorIllegalAddress)". Errors: kResourceExhausted where memory was
// what lacked; kUnimplemented where this card has no image of a kernel; kUnavailable for the rest: the GPU is lost to this process.
absl::Status CudaStatus(cudaError_t error, std::string_view doing);

}  // namespace zeroshard::device::cuda

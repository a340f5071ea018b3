#include "zeroshard/device/cuda/cuda_errors.h"

#include "absl/strings/str_cat.h"
#include "zeroshard/device/cuda/cuda_status.h"

namespace zeroshard::device::cuda {

void CudaErrors::KeepError(cudaError_t error, const char* doing) {
  first_.Keep(CudaStatus(error, absl::StrCat(device_, ": ", doing)));
}

}  // namespace zeroshard::device::cuda

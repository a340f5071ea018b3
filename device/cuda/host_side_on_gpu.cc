#include "absl/strings/str_cat.h"
#include "zeroshard/device/cuda/host_side.h"

namespace zeroshard::device::cuda {

void HostHandsOver(int) {}

absl::Status QueueOnHost(cudaStream_t, const Operation& operation) {
  return absl::UnimplementedError(
      absl::StrCat("\"", operation.name,
                   "\" is host code on device memory, which a GPU cannot run: write it as kernels of "
                   "the device, or train on device/cpu"));
}

}  // namespace zeroshard::device::cuda

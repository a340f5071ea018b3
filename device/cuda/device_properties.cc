// Prints what cuDNN knows of a GPU, in the form in which cudnn_attention_test reads it (testdata/): one JSON object. Takes the GPU's ordinal.
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "zeroshard/device/cuda/gpus.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::device::cuda {
namespace {

absl::Status OfCudnn(cudnnStatus_t status, const char* doing) {
  if (status == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("cuDNN: ", doing, ": ", cudnnGetErrorString(status)));
}

absl::StatusOr<std::string> Properties(int32_t ordinal) {
  ZS_RETURN_IF_ERROR(FindGpus().status());
  cudnnBackendDescriptor_t descriptor = nullptr;
  ZS_RETURN_IF_ERROR(OfCudnn(cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &descriptor), "starting"));
  const auto drop = absl::MakeCleanup([descriptor] { cudnnBackendDestroyDescriptor(descriptor); });
  ZS_RETURN_IF_ERROR(OfCudnn(
      cudnnBackendSetAttribute(descriptor, CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32, 1, &ordinal), "the device"));
  ZS_RETURN_IF_ERROR(OfCudnn(cudnnBackendFinalize(descriptor), "looking at the device"));
  int64_t bytes = 0;
  ZS_RETURN_IF_ERROR(OfCudnn(
      cudnnBackendGetAttribute(descriptor, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, 0, &bytes, nullptr),
      "its properties"));
  std::vector<char> text(static_cast<size_t>(bytes) + 1, '\0');
  ZS_RETURN_IF_ERROR(OfCudnn(cudnnBackendGetAttribute(descriptor, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                                      bytes, &bytes, text.data()),
                             "its properties"));
  return std::string(text.data());
}

}  // namespace
}  // namespace zeroshard::device::cuda

int main(int argc, char** argv) {
  int ordinal = 0;
  if (argc > 2 || (argc == 2 && !absl::SimpleAtoi(argv[1], &ordinal))) {
    std::fputs("device_properties takes the ordinal of a GPU, and nothing else\n", stderr);
    return 2;
  }
  const auto properties = zeroshard::device::cuda::Properties(ordinal);
  if (!properties.ok()) {
    std::fprintf(stderr, "%s\n", std::string(properties.status().message()).c_str());
    return absl::IsFailedPrecondition(properties.status()) ? 2 : 1;
  }
  std::printf("%s\n", properties->c_str());
  return 0;
}

#include "zeroshard/device/cuda/cuda_libraries.h"

#include <cublasLt.h>

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/cuda/cudnn_attention.h"
#include "zeroshard/device/library_versions.h"

namespace zeroshard::device::cuda {

std::string LoadedLibraries() {
  return absl::StrCat(LibraryText("cuBLASLt", static_cast<int64_t>(cublasLtGetVersion())), ", ",
                      LibraryText("cuDNN", CudnnVersion()));
}

}  // namespace zeroshard::device::cuda

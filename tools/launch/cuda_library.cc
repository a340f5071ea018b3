#include "zeroshard/tools/launch/cuda_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::tools {
namespace {

constexpr char kName[] = "libzeroshard_cuda.so";
constexpr char kVariable[] = "ZEROSHARD_CUDA_LIBRARY";

absl::StatusOr<std::string> Find() {
  if (const char* named = std::getenv(kVariable)) return named;
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / kName;
  if (!error && std::filesystem::exists(path, error)) return path.string();
  return absl::FailedPreconditionError(
      absl::StrCat("no ", kName,
                   " beside the program: it was built on a machine without a CUDA toolkit; build it where one is "
                   "(CUDA_HOME), or leave out --device=cuda and --backend=nccl"));
}

absl::Status Open() {
  ZS_ASSIGN_OR_RETURN(const std::string path, Find());
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "cannot open ", path, ": ", dlerror(), "; install NVIDIA's libraries where the loader finds them (LD_LIBRARY_PATH)"));
}

}  // namespace

absl::Status OpenCudaLibrary() {
  static const absl::Status& opened = *new absl::Status(Open());
  return opened;
}

}  // namespace zeroshard::tools

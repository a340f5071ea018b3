// The environment of a tool whose GPUs are doubles: //tools:libzeroshard_cuda_on_doubles.so in place of CUDA's libraries; or where
// ZEROSHARD_ON_PTX is defined, //tools:libzeroshard_cuda_on_ptx.so.
//
// Example:
//   RunTool("tools/train", {"--backend=nccl"}, OnDoubles({"ZEROSHARD_DOUBLE_DEVICES=2"}));
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace zeroshard::integration_tests {

#if defined(ZEROSHARD_ON_PTX)
inline constexpr char kDoublesLibrary[] = "tools/libzeroshard_cuda_on_ptx.so";
#else
inline constexpr char kDoublesLibrary[] = "tools/libzeroshard_cuda_on_doubles.so";
#endif

// `more`: device/cuda/doubles/control.h.
inline std::vector<std::string> OnDoubles(const std::vector<std::string>& more = {}) {
  const auto library = std::filesystem::current_path() / kDoublesLibrary;
  std::vector<std::string> environment = {"ZEROSHARD_CUDA_LIBRARY=" + library.string()};
  environment.insert(environment.end(), more.begin(), more.end());
  return environment;
}

}  // namespace zeroshard::integration_tests

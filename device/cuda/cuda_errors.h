// What went wrong on one CUDA device: the first error stays, with CUDA's words for it.
//
// A fault in a kernel is sticky: every later call of the process gives it, from whichever operation it came. So what is kept says what was
// called, not what was at fault. Thread-safe; where all is well a call costs a comparison.
//
// Example:
//   errors.Keep(cudaEventRecord(event, stream), "recording an event");
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "zeroshard/device/first_error.h"

namespace zeroshard::device::cuda {

class CudaErrors {
 public:
  // device: "device 0 (NVIDIA H100)".
  explicit CudaErrors(std::string device) : device_(std::move(device)) {}

  void Keep(cudaError_t error, const char* doing) {
    if (error != cudaSuccess) KeepError(error, doing);
  }
  void Keep(const absl::Status& status) { first_.Keep(status); }
  absl::Status status() const { return first_.status(); }
  FirstError& first() { return first_; }

 private:
  void KeepError(cudaError_t error, const char* doing);

  const std::string device_;
  FirstError first_;
};

}  // namespace zeroshard::device::cuda

// Where host memory comes from, where a device beside it copies from and to some of it fastest.
//
// Example: device/cuda hands its pinned memory to its host (cpu_device.h).
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"

namespace zeroshard::device {

class HostMemorySource {
 public:
  virtual ~HostMemorySource() = default;
  // Zeroed [bytes > 0], touched once, that start a page. Errors: kResourceExhausted where there is no more of it.
  virtual absl::StatusOr<void*> Allocate(int64_t bytes) = 0;
  // What Allocate(bytes) gave.
  virtual void Free(void* data, int64_t bytes) = 0;
};

}  // namespace zeroshard::device

// How host memory is pinned, where a device beside it copies from and to pinned memory fastest.
//
// Example: device/cuda hands its own to its host (cpu_device.h).
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace zeroshard::device {

class HostPinning {
 public:
  virtual ~HostPinning() = default;
  // [bytes > 0] at `data`, which starts a page. Errors: kResourceExhausted where so much cannot be pinned.
  virtual absl::Status Pin(void* data, int64_t bytes) = 0;
  virtual void Unpin(void* data) = 0;
};

}  // namespace zeroshard::device

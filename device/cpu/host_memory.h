// Host memory for a device's buffers: page-aligned, on huge pages where it is big, zeroed and touched once at start.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(HostMemory memory, HostMemory::Map(bytes));
//   memory.data();   // [bytes], until `memory` is dropped
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"

namespace zeroshard::device {

// At most that much can be touched without swapping: by the machine's memory, and by the container's limit.
int64_t AvailableHostBytes();
// And that much more with swapping; 0 where there is no swap.
int64_t FreeSwapBytes();

class HostMemory {
 public:
  // Errors: kInvalidArgument if bytes < 0; kResourceExhausted if the machine has not that much left.
  static absl::StatusOr<HostMemory> Map(int64_t bytes);

  HostMemory() = default;
  HostMemory(HostMemory&& other) noexcept { *this = std::move(other); }
  HostMemory& operator=(HostMemory&& other) noexcept {
    std::swap(mapped_, other.mapped_);
    std::swap(mapped_bytes_, other.mapped_bytes_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~HostMemory();

  void* data() const { return data_; }

 private:
  void* mapped_ = nullptr;
  size_t mapped_bytes_ = 0;
  void* data_ = nullptr;
};

}  // namespace zeroshard::device

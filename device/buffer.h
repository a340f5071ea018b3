// Memory of a device that somebody owns: given back, and credited in the ledger, when the Buffer is dropped.
//
// A Buffer must not outlive the Device (or Communicator) that made it, nor be dropped while an operation that uses it is queued.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(Buffer moments, device.Allocate(8 * n, Use::kMoments, "moments"));
//   Array m = moments.array(DType::kFloat32).Slice(0, n);
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "zeroshard/device/array.h"

namespace zeroshard::device {

class Buffer {
 public:
  // What keeps the memory: its destructor gives it back (and credits the ledger). Each allocator derives its own.
  class Owner {
   public:
    virtual ~Owner() = default;
  };

  Buffer() = default;
  Buffer(uint64_t address, int64_t bytes, std::unique_ptr<Owner> owner)
      : address_(address), bytes_(bytes), owner_(std::move(owner)) {}

  int64_t bytes() const { return bytes_; }
  // All of it, as elements of `dtype`.
  Array array(DType dtype) const { return Array(address_, bytes_ / SizeOf(dtype), dtype); }
  explicit operator bool() const { return owner_ != nullptr; }

 private:
  uint64_t address_ = 0;
  int64_t bytes_ = 0;
  std::unique_ptr<Owner> owner_;
};

}  // namespace zeroshard::device

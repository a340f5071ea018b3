// What an allocator of pieces holds.
//
// Example:
//   memory.held().spare()
#pragma once

#include <cstdint>

namespace zeroshard::device::cuda {

struct HeldBytes {
  int64_t taken = 0;  // in pieces
  int64_t asked = 0;  // of them, by who allocates

  int64_t spare() const { return taken - asked; }
};

}  // namespace zeroshard::device::cuda

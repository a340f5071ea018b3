// What an instruction's name means.
//
// Example:
//   const Compute add = FindCompute("add.rn.f32");   // nullptr: this machine does not have it
#pragma once

#include <string_view>

#include "zeroshard/device/cuda/ptx/program.h"

namespace zeroshard::device::cuda::ptx {

// Operands are from[0], from[1] ... in the order of the text, the result to[0]; the carry is kCarryRegister.
Compute FindCompute(std::string_view name);

// Example: FindAtomic("add.u64").
Combine FindAtomic(std::string_view operation);

// What `type` ("u16", "f64") is.
struct Type {
  uint8_t bytes = 0;  // 0: unknown
  bool is_signed = false;
};
Type FindType(std::string_view type);

}  // namespace zeroshard::device::cuda::ptx

// From PTX as nvcc writes it to what the machine runs.
//
// What this room does not have (an instruction, a directive, a state space) ends the test with its name and line.
//
// Example:
//   const Module module = Parse(text);
#pragma once

#include <string_view>

#include "zeroshard/device/cuda/ptx/program.h"

namespace zeroshard::device::cuda::ptx {

Module Parse(std::string_view text);

}  // namespace zeroshard::device::cuda::ptx

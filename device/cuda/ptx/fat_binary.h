// The PTX in what nvcc embeds in an object.
//
// Example:
//   const std::string_view text = PtxIn(wrapper);   // of __cudaRegisterFatBinary
#pragma once

#include <string_view>

namespace zeroshard::device::cuda::ptx {

// `wrapper`: what nvcc's stubs hand to __cudaRegisterFatBinary. Ends the test where there is no PTX, or it is compressed.
std::string_view PtxIn(const void* wrapper);

}  // namespace zeroshard::device::cuda::ptx

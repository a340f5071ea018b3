// Which of the vendor's libraries compute for device/cuda: ranks with others have other bits.
#pragma once

#include <string>

namespace zeroshard::device::cuda {

// As library_versions.h writes them. Without cuDNN our kernels do what it would.
std::string LoadedLibraries();

}  // namespace zeroshard::device::cuda

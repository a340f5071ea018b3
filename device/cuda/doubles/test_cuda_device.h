// A CudaDevice on the doubles, for the suites of other rooms.
//
// Example:
//   {.world_size = 2, .make_device = [order] { return MakeTestCudaDevice({.order = order}); }}
#pragma once

#include <memory>
#include <optional>

#include "zeroshard/device/cuda/cuda_device.h"
#include "zeroshard/device/late/late_options.h"

namespace zeroshard::device::cuda::doubles {

// Devices that are there at a time are of different GPUs, as ranks' are: one after the other of the eight, and from the first again. Each
// allocation is one of CUDA's, so that the doubles see where it ends. `left_out`: a wait that orders nothing.
std::unique_ptr<CudaDevice> MakeTestCudaDevice(const LateOptions& order = {},
                                               std::optional<WaitPoint> left_out = std::nullopt);

}  // namespace zeroshard::device::cuda::doubles

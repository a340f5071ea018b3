// Two kernels for launch_test: one of threads, one of blocks.
#pragma once

#include <cuda_runtime_api.h>

#include "zeroshard/device/array.h"

namespace zeroshard::device::cuda {

// y += a x over the first `elements` of fp32 arrays, whatever their sizes.
cudaError_t Axpy(cudaStream_t stream, int64_t elements, float a, device::In x, device::InOut y);
// sums[r] = the sum of x[r, width], fp32, one block of 64 threads a row.
cudaError_t RowSums(cudaStream_t stream, int64_t width, device::In x, device::Out sums);

}  // namespace zeroshard::device::cuda

// The kernels of device/elementwise.h on a CUDA stream: the same bits as device/cpu's.
//
// Each queues at most one kernel and answers the launch's error. Arrays are checked by the caller (cuda_elementwise.h).
//
// Example:
//   cudaError_t error = Accumulate(stream, bucket, shard);
#pragma once

#include <cuda_runtime_api.h>

#include "zeroshard/device/array.h"

namespace zeroshard::device::cuda {

cudaError_t Fill(cudaStream_t stream, const Array& y, double value);
cudaError_t Copy(cudaStream_t stream, const Array& x, const Array& y);
cudaError_t Convert(cudaStream_t stream, const Array& x, const Array& y);
cudaError_t Accumulate(cudaStream_t stream, const Array& x, const Array& y);
cudaError_t Scale(cudaStream_t stream, const Array& y, double factor);

}  // namespace zeroshard::device::cuda

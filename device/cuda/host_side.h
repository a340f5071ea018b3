// What differs, on the host, between a GPU and the doubles: two functions, of which the final target links one pair
// (//device/cuda:on_gpu, //device/cuda/doubles).
#pragma once

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "zeroshard/device/stream.h"

namespace zeroshard::device::cuda {

// This thread hands work on to another one, by a lock or a queue that CUDA does not see: what it has synchronised with counts for that
// one too. Nothing on a GPU; the doubles' clocks learn of it ("Note: Who knows of what" in late_engine.h).
void HostHandsOver(int device);

// An operation on host memory. Errors: kUnimplemented on a GPU.
absl::Status QueueOnHost(cudaStream_t stream, const Operation& operation);

}  // namespace zeroshard::device::cuda

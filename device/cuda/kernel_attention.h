// Attention of device/cuda by our own kernels (attention_kernels.h): fp32's on a GPU, every dtype's on the doubles.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(auto attention, PlanKernelAttention(spec));
//   attention->Forward(stream, qkv, out, log_sum_exp, workspace);        // a CudaStream
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "zeroshard/device/attention.h"

namespace zeroshard::device::cuda {

// Errors: kInvalidArgument if a size is below 1; kUnimplemented for heads wider than 256, and for dtypes other than fp32, bf16, fp16.
absl::StatusOr<std::unique_ptr<Attention>> PlanKernelAttention(const AttentionSpec& spec);

}  // namespace zeroshard::device::cuda

// Attention by cuDNN's graphs, in bf16 and fp16, for device/cuda. Where cuDNN's frontend was not found, and on the doubles, there is none,
// and our own kernels do it.
//
// Example:
//   auto attention = PlanCudnnAttention(spec, device, setup);
//   if (absl::IsUnimplemented(attention.status())) ...
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/device/attention.h"
#include "zeroshard/device/cuda/cuda_stream.h"
#include "zeroshard/device/device.h"

namespace zeroshard::device::cuda {

// Of the cuDNN that is loaded, as it numbers itself (91400: 9.14.0); 0 where it was not built in.
int64_t CudnnVersion();

// What is said where it was not built in.
inline constexpr char kNoCudnn[] = "cuDNN's attention is not built in";

// `setup`: what the plan runs on once when it is made.
// Errors: kUnimplemented for fp32, for a shape that cuDNN does not take, and where it was not built in.
absl::StatusOr<std::unique_ptr<Attention>> PlanCudnnAttention(const AttentionSpec& spec, Device& device, CudaStream& setup);

// Has cuDNN plan and check both graphs for a card that is not there, from its properties as cuDNN writes them (JSON); sm_version: 90.
// Errors: kUnimplemented with cuDNN's words.
absl::Status CheckCudnnGraphs(const AttentionSpec& spec, const std::string& device_properties, int sm_version);

}  // namespace zeroshard::device::cuda

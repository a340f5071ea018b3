// Who does device/cuda's attention: cuDNN in bf16 and fp16 where it can, else our kernels.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "zeroshard/device/attention.h"
#include "zeroshard/device/cuda/attention_makers.h"
#include "zeroshard/device/cuda/cuda_stream.h"
#include "zeroshard/device/device.h"

namespace zeroshard::device::cuda {

// `setup`: what the plan runs on once when it is made. Notes in `makers` whose it is, where cuDNN's might be. Errors: as
// Device::PlanAttention.
absl::StatusOr<std::unique_ptr<Attention>> PlanCudaAttention(const AttentionSpec& spec, Device& device, CudaStream& setup,
                                                             AttentionMakers& makers);

}  // namespace zeroshard::device::cuda

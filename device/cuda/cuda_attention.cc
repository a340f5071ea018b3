#include "zeroshard/device/cuda/cuda_attention.h"

#include <utility>

#include "glog/logging.h"
#include "zeroshard/device/cuda/cudnn_attention.h"
#include "zeroshard/device/cuda/kernel_attention.h"

namespace zeroshard::device::cuda {

absl::StatusOr<std::unique_ptr<Attention>> PlanCudaAttention(const AttentionSpec& spec, Device& device, CudaStream& setup) {
  if (spec.dtype == DType::kFloat32) return PlanKernelAttention(spec);
  auto plan = PlanCudnnAttention(spec, device, setup);
  if (!absl::IsUnimplemented(plan.status())) return plan;
  LOG(INFO) << "attention in " << Name(spec.dtype) << " is our own kernels': " << plan.status().message();
  return PlanKernelAttention(spec);
}

}  // namespace zeroshard::device::cuda

#include "zeroshard/device/cuda/cuda_attention.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "zeroshard/device/cuda/cudnn_attention.h"
#include "zeroshard/device/cuda/kernel_attention.h"

namespace zeroshard::device::cuda {

absl::StatusOr<std::unique_ptr<Attention>> PlanCudaAttention(const AttentionSpec& spec, Device& device, CudaStream& setup,
                                                             AttentionMakers& makers) {
  if (spec.dtype == DType::kFloat32) return PlanKernelAttention(spec);
  const std::string name = absl::StrCat("attention [", spec.batch, ", ", spec.heads, ", ", spec.context, ", ",
                                        spec.head_width, "] in ", std::string(Name(spec.dtype)));
  auto plan = PlanCudnnAttention(spec, device, setup);
  const bool ours = absl::IsUnimplemented(plan.status());
  makers.Note(name, ours ? kByOurKernels : kByCudnn);
  if (!ours) return plan;
  LOG(INFO) << name << " is our own kernels': " << plan.status().message();
  return PlanKernelAttention(spec);
}

}  // namespace zeroshard::device::cuda

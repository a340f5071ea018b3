#include "zeroshard/device/cpu/cpu_gemm.h"

#include "zeroshard/device/cpu/blocked_weights_gemm.h"
#include "zeroshard/device/cpu/gemm_checks.h"
#include "zeroshard/device/cpu/matmul_gemm.h"
#include "zeroshard/device/cpu/weight_gradient_gemm.h"
#include "zeroshard/device/cpu/widened_gemm.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::device {

absl::StatusOr<std::unique_ptr<Gemm>> PlanCpuGemm(const GemmSpec& spec, int threads, Device& device, FirstError& error,
                                                  Bfloat16Products bfloat16) {
  ZS_RETURN_IF_ERROR(CheckSpec(spec));
  if (spec.input == DType::kFloat16 || (spec.input == DType::kBfloat16 && bfloat16 == Bfloat16Products::kWidened)) {
    return PlanWidenedGemm(spec, threads, device, error);
  }
  if (WantsBlockedWeights(spec)) {
    auto plan = PlanBlockedWeights(spec, threads, device, error);
    if (!absl::IsUnimplemented(plan.status())) return plan;
  }
  if (WantsWeightGradient(spec)) {
    auto plan = PlanWeightGradient(spec, threads, device, error);
    if (!absl::IsUnimplemented(plan.status())) return plan;
  }
  return PlanMatmul(spec, threads, device, error);
}

}  // namespace zeroshard::device

// Products A^T B over many rows of bf16, the gradient of a linear layer's weight, by oneDNN's inner product: it beats matmul there.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(auto gemm, PlanWeightGradient(spec, /*threads=*/1, device, error));
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "zeroshard/device/device.h"
#include "zeroshard/device/first_error.h"
#include "zeroshard/device/gemm.h"

namespace zeroshard::device {

// Whether a product is better planned so. It adds to nothing: oneDNN has no sum here.
bool WantsWeightGradient(const GemmSpec& spec);

// As PlanCpuGemm. Errors: kUnimplemented where oneDNN has no such product.
absl::StatusOr<std::unique_ptr<Gemm>> PlanWeightGradient(const GemmSpec& spec, int threads, Device& device,
                                                         FirstError& error);

}  // namespace zeroshard::device

// Products of operands that oneDNN 2.6 does not multiply on this CPU: fp16, and bf16 without AVX-512. Blocks of A, B and C are
// widened to fp32 scratch planned at start, multiplied in fp32, and rounded once.
//
// A block is all of k deep, so that no partial sum is rounded. B is widened once, A once for each block of columns.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(auto gemm, PlanWidenedGemm({.m = 4, .k = 8, .n = 2, .input = DType::kFloat16}, 1, device, error));
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "zeroshard/device/device.h"
#include "zeroshard/device/first_error.h"
#include "zeroshard/device/gemm.h"

namespace zeroshard::device {

// As PlanCpuGemm.
absl::StatusOr<std::unique_ptr<Gemm>> PlanWidenedGemm(const GemmSpec& spec, int threads, Device& device, FirstError& error);

}  // namespace zeroshard::device

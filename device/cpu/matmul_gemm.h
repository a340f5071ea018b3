// Matrix products by oneDNN's matmul on operands as they lie: fp32, and bf16 where the CPU has it.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(auto gemm, PlanMatmul({.m = 4, .k = 8, .n = 2}, /*threads=*/1, device, error));
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "zeroshard/device/device.h"
#include "zeroshard/device/first_error.h"
#include "zeroshard/device/gemm.h"

namespace zeroshard::device {

// As PlanCpuGemm. Errors: kUnimplemented if oneDNN has no such product on this machine.
absl::StatusOr<std::unique_ptr<Gemm>> PlanMatmul(const GemmSpec& spec, int threads, Device& device, FirstError& error);

}  // namespace zeroshard::device

// Matrix products on host memory by oneDNN, for device/cpu and device/late.
//
// Each plan is one primitive (or a few), made at start with its scratch; a run sets addresses and executes. Which primitive is
// chosen by dtype and shape: matmul, the inner product on blocked weights or for a weight's gradient, or fp32 on widened
// operands. A plan is run by one thread at a time.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(auto gemm, PlanCpuGemm({.m = 4, .k = 8, .n = 2}, /*threads=*/1, device, error));
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "zeroshard/device/cpu/bfloat16_products.h"
#include "zeroshard/device/device.h"
#include "zeroshard/device/first_error.h"
#include "zeroshard/device/gemm.h"

namespace zeroshard::device {

// `device` gives the scratch (AllocateHost, filed under activations); `error` keeps what goes wrong in a run. Both outlive
// the plan. `bfloat16` is for tests: the other way to multiply.
// Errors: kInvalidArgument if a size is negative or k is 0; kUnimplemented for dtypes that gemm.h does not name.
absl::StatusOr<std::unique_ptr<Gemm>> PlanCpuGemm(const GemmSpec& spec, int threads, Device& device, FirstError& error,
                                                  Bfloat16Products bfloat16 = FindBfloat16Products());

}  // namespace zeroshard::device

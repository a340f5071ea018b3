// Matrix products on host memory by oneDNN's matmul, for device/cpu and device/late.
//
// One primitive a plan, made at start with its scratch; a run sets three addresses and executes. A plan is run by one thread
// at a time.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(auto gemm, PlanCpuGemm({.m = 4, .k = 8, .n = 2}, /*threads=*/1, device, error));
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "zeroshard/device/device.h"
#include "zeroshard/device/first_error.h"
#include "zeroshard/device/gemm.h"

namespace zeroshard::device {

// `device` gives the scratch (AllocateHost, filed under activations); `error` keeps what goes wrong in a run. Both outlive
// the plan. Errors: kInvalidArgument if a size is negative or k is 0; kUnimplemented if oneDNN has no such product on this
// machine.
absl::StatusOr<std::unique_ptr<Gemm>> PlanCpuGemm(const GemmSpec& spec, int threads, Device& device, FirstError& error);

}  // namespace zeroshard::device

// Products x W of many rows of bf16, by oneDNN's inner product: W is brought each time into the layout that the CPU's matrix unit
// reads, in scratch planned at start, which costs less than what it saves.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(auto gemm, PlanBlockedWeights(spec, /*threads=*/1, device, error));
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "zeroshard/device/device.h"
#include "zeroshard/device/first_error.h"
#include "zeroshard/device/gemm.h"

namespace zeroshard::device {

// Whether a product is better planned so: A as it lies, rows enough to pay for B's new layout.
bool WantsBlockedWeights(const GemmSpec& spec);

// As PlanCpuGemm. Errors: kUnimplemented where oneDNN has no such product that is fast.
absl::StatusOr<std::unique_ptr<Gemm>> PlanBlockedWeights(const GemmSpec& spec, int threads, Device& device,
                                                         FirstError& error);

}  // namespace zeroshard::device

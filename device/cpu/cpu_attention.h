// Causal attention on host memory, for device/cpu and device/late.
//
// A head's queries, keys and values are copied dense, and multiplied in blocks of 64 positions by oneDNN; what a block does
// not see is not computed. Backward goes by blocks of keys on transposed scores: probabilities and their gradients multiply
// as they lie, and the gradients of keys and values need no adding up. Heads are spread over threads, each with plans and
// scratch of its own. bf16 is multiplied in bf16 where the CPU has it; elsewhere, and in fp16, a head is widened as it is
// copied, multiplied in fp32, and rounded as it is put back.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(auto attention, PlanCpuAttention(spec, /*threads=*/1, device, error));
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "zeroshard/device/attention.h"
#include "zeroshard/device/cpu/bfloat16_products.h"
#include "zeroshard/device/device.h"
#include "zeroshard/device/first_error.h"

namespace zeroshard::device {

// `device` gives the scratch of products; `error` keeps what goes wrong in a run. Both outlive the plan.
// `bfloat16` is for tests: the other way to multiply.
// Errors: kInvalidArgument if a size is below 1; kUnimplemented for a dtype other than fp32, bf16 and fp16.
absl::StatusOr<std::unique_ptr<Attention>> PlanCpuAttention(const AttentionSpec& spec, int threads, Device& device,
                                                            FirstError& error,
                                                            Bfloat16Products bfloat16 = FindBfloat16Products());

}  // namespace zeroshard::device

// What every kind of planned product checks, and what it is called in messages.
//
// Example:
//   return absl::InvalidArgumentError(absl::StrCat(Describe(spec), ": k must be at least 1"));
#pragma once

#include <string>

#include "absl/status/status.h"
#include "zeroshard/device/array.h"
#include "zeroshard/device/gemm.h"

namespace zeroshard::device {

// "product [4 x 8] x [8 x 2] with B's transpose + bias, bf16 to fp32".
std::string Describe(const GemmSpec& spec);

// Errors: kInvalidArgument if a size is negative, k is 0 or rows overlap; kUnimplemented for dtypes other than those of gemm.h.
absl::Status CheckSpec(const GemmSpec& spec);

// Ends the program where operands do not agree with their plan.
void CheckOperands(const GemmSpec& spec, const Array& a, const Array& b, const Array& c, const Array& bias);

}  // namespace zeroshard::device

// Reductions of several ranks' parts, on host memory: what comm's host schedules add up with.
//
// Example:
//   const void* parts[] = {mine, theirs};
//   ReduceParts({.in = DType::kBfloat16, .out = DType::kFloat32}, parts, partial, n);           // a halving step's partial
//   sums ReduceParts({.in = DType::kFloat32, .out = DType::kBfloat16, .divisor = 4}, partials, out, n);   // the last:
//   average, rounded
#pragma once

#include <cstdint>
#include <span>

#include "zeroshard/device/reduce_spec.h"

namespace zeroshard::device {

// out[i] = combination of parts[j][i] over all j, for i in [0, count), by the tree; in fp32 for floats of up to 32 bits,
// fp64 for fp64, wrapping for integers; then divided in that type, then rounded once (to nearest even). Maximum and minimum
// are NaN where any part is. One part is converted (and divided) alone. parts: at least one, any number, [count] elements
// each; `out` may be one of them if in and out have one size, and overlaps none otherwise. Allocates nothing. CHECKs
// CanReduce(spec).
void ReduceParts(const ReduceSpec& spec, std::span<const void* const> parts, void* out, int64_t count);

// The same result into each of `outs`, at least one.
void ReduceParts(const ReduceSpec& spec, std::span<const void* const> parts, std::span<void* const> outs, int64_t count);

}  // namespace zeroshard::device

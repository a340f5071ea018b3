// What a reduction of several ranks' parts is: dtypes, the operation, the divisor. The same on every device.
//
// Sums follow the one tree over parts, whatever their number: neighbours first, ((p0+p1)+(p2+p3))+((p4+p5)+(p6+p7)), level
// by level, an odd one out passing up unchanged. So a reduction may be cut into stages at the tree's own joints: reduce
// pairs of bf16 into fp32, later pairs of those partial sums, and round once at the end; the bits are those of one call.
//
// Example:
//   ReduceSpec average{.in = DType::kFloat32, .out = DType::kBfloat16, .divisor = 4};
#pragma once

#include <cstdint>

#include "zeroshard/device/dtype.h"

namespace zeroshard::device {

enum class Combine : uint8_t { kSum, kMax, kMin };

// Whether the result is read again soon (it goes through the cache), or is big and read late (it goes past it).
enum class Stores : uint8_t { kCached, kStreaming };

struct ReduceSpec {
  DType in = DType::kFloat32;
  DType out = DType::kFloat32;
  Combine combine = Combine::kSum;
  double divisor = 1;  // Of floats: the result is divided by it before it is rounded to `out`.
  Stores stores = Stores::kCached;
};

// Parts that one call takes; more are reduced in stages.
inline constexpr int64_t kMaxReduceParts = 1024;

// Whether there is such a reduction: in and out each one of fp32, bf16, fp16; or both fp64; or both int32 or both int64 (divisor
// 1).
constexpr bool CanReduce(const ReduceSpec& spec) {
  const auto narrow = [](DType t) { return t == DType::kFloat32 || t == DType::kBfloat16 || t == DType::kFloat16; };
  if (spec.in == DType::kFloat64) return spec.out == DType::kFloat64;
  if (narrow(spec.in)) return narrow(spec.out);
  return spec.in != DType::kUint8 && spec.in == spec.out && spec.divisor == 1;
}

}  // namespace zeroshard::device

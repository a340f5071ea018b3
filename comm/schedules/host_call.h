// HostCall: a collective on host memory, as the schedules take it: arguments checked, headers agreed on.
//
// Example: where rank p's part of a segment lies in the whole.
//   const Stretch part = PartOf(call, segment, p, world_size);
//   const std::byte* theirs = segment.in + part.first * call.in_size();
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "zeroshard/comm/operation.h"
#include "zeroshard/comm/reduce_op.h"
#include "zeroshard/device/cpu/reduce.h"
#include "zeroshard/device/dtype.h"

namespace zeroshard::comm {

// As Segment in call_options.h; count > 0. Not looked at: `in` of a broadcast but at the root, `out` of a reduce but at the root.
struct HostSegment {
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  int64_t count = 0;
  int64_t stride = 0;
};

struct HostCall {
  OpKind kind = OpKind::kBarrier;
  ReduceOp op = ReduceOp::kSum;
  device::DType in = device::DType::kUint8;
  device::DType out = device::DType::kUint8;
  int root = -1;
  std::span<const HostSegment> segments;

  int64_t in_size() const { return SizeOf(in); }
  int64_t out_size() const { return SizeOf(out); }
};

// Elements [first, first + count) of a segment.
struct Stretch {
  int64_t first = 0;
  int64_t count = 0;
};

// Rank p's part: of reduce-scatter and all-gather as the segment's stride says; of all-reduce count / world_size elements, and one
// more for the first ranks where that leaves a rest; else the whole.
inline Stretch PartOf(const HostCall& call, const HostSegment& segment, int p, int world_size) {
  if (call.kind == OpKind::kReduceScatter || call.kind == OpKind::kAllGather) return {p * segment.stride, segment.count};
  if (call.kind != OpKind::kAllReduce) return {0, segment.count};
  const int64_t each = segment.count / world_size;
  const int64_t rest = segment.count % world_size;
  return {p * each + std::min<int64_t>(p, rest), each + (p < rest ? 1 : 0)};
}

// Elements [first, first + count) of a part that has `part` of them: what of a piece is there.
inline int64_t CountIn(const Stretch& part, const Stretch& piece) {
  return std::clamp<int64_t>(part.count - piece.first, 0, piece.count);
}

inline device::Combine CombineOf(ReduceOp op) {
  return op == ReduceOp::kMax ? device::Combine::kMax : op == ReduceOp::kMin ? device::Combine::kMin : device::Combine::kSum;
}

// In what partial results travel and are added.
inline device::DType AccumulatorOf(device::DType in) {
  return in == device::DType::kBfloat16 || in == device::DType::kFloat16 ? device::DType::kFloat32 : in;
}

// All of a call's parts at once, rounded once.
inline device::ReduceSpec WholeReduction(const HostCall& call, int world_size) {
  return {.in = call.in,
          .out = call.out,
          .combine = CombineOf(call.op),
          .divisor = call.op == ReduceOp::kAverage ? static_cast<double>(world_size) : 1.0};
}

}  // namespace zeroshard::comm

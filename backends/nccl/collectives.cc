#include "zeroshard/backends/nccl/collectives.h"

#include <algorithm>
#include <span>

#include "absl/strings/str_cat.h"
#include "zeroshard/backends/nccl/native_reductions.h"
#include "zeroshard/backends/nccl/tree_reductions.h"
#include "zeroshard/device/device.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::backends {
namespace {

using comm::Operation;
using comm::OpKind;
using comm::Segment;
using device::Array;

// This rank's `in` to its part of `out`, where it does not lie there already.
absl::Status PutOwn(const Lane& lane, const Array& in, const Array& own) {
  if (in.empty() || in.address() == own.address()) return absl::OkStatus();
  ZS_RETURN_IF_ERROR(lane.pace->Take(1));
  lane.stream->device().elementwise().Copy(*lane.stream, in, own);
  return absl::OkStatus();
}

// call(group, segment) for each, in as many groups as that takes.
template <class Call>
absl::Status InGroups(const Lane& lane, std::span<const Segment> segments, Call&& call) {
  for (auto segment = segments.begin(); segment != segments.end();) {
    CallGroup group(lane);
    while (segment != segments.end() && !group.full()) call(group, *segment++);
    ZS_RETURN_IF_ERROR(group.End());
  }
  return absl::OkStatus();
}

absl::Status AllGather(const Lane& lane, const Operation& operation) {
  for (const Segment& segment : operation.segments) {
    const int64_t count = segment.in.elements();
    if (count == segment.stride || count == 0) continue;
    ZS_RETURN_IF_ERROR(PutOwn(lane, segment.in, segment.out.Slice(lane.rank * segment.stride, count)));
  }
  return InGroups(lane, operation.segments, [&lane](CallGroup& group, const Segment& segment) {
    const int64_t count = segment.in.elements();
    if (count == segment.stride) return group.AllGather(segment.in, segment.out);
    for (int step = 1; step < lane.world_size && count > 0; ++step) {
      const int to = (lane.rank + step) % lane.world_size;
      const int from = (lane.rank + lane.world_size - step) % lane.world_size;
      group.Send(segment.in, to);
      group.Receive(segment.out.Slice(from * segment.stride, count), from);
    }
  });
}

absl::Status Broadcast(const Lane& lane, const Operation& operation) {
  return InGroups(lane, operation.segments, [&](CallGroup& group, const Segment& segment) {
    group.Broadcast(lane.rank == operation.root ? segment.in : segment.out, segment.out, operation.root);
  });
}

absl::Status Barrier(const Lane& lane) {
  const Array one = lane.scratch.As(device::DType::kInt32).Slice(0, 1);
  ZS_RETURN_IF_ERROR(lane.pace->Take(1));
  lane.stream->device().elementwise().Fill(*lane.stream, one, 0);
  CallGroup group(lane);
  group.AllReduce(one, one, ncclSum);
  return group.End();
}

bool Native(const Operation& operation, comm::Reduction reduction) {
  return !device::IsFloat(operation.in_dtype) || reduction == comm::Reduction::kNative;
}

}  // namespace

absl::Status CheckCollective(const Operation& operation, comm::Reduction reduction) {
  const bool extreme = operation.op == comm::ReduceOp::kMax || operation.op == comm::ReduceOp::kMin;
  if (!comm::IsReduction(operation.kind) || !extreme || !device::IsFloat(operation.in_dtype)) return absl::OkStatus();
  if (reduction == comm::Reduction::kTree) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(Describe(operation),
                                               ": NCCL's maximum and minimum of floats drop NaN, where ours give it: take "
                                               "--reduction=tree, or reduce integers"));
}

absl::Status StartCollective(const Lane& lane, const Operation& operation, comm::Reduction reduction) {
  switch (operation.kind) {
    case OpKind::kAllGather:
      return AllGather(lane, operation);
    case OpKind::kBroadcast:
      return Broadcast(lane, operation);
    case OpKind::kBarrier:
    case OpKind::kFinalize:
      return Barrier(lane);
    case OpKind::kAllReduce:
    case OpKind::kReduceScatter:
    case OpKind::kReduce:
      return Native(operation, reduction) ? ReduceNatively(lane, operation) : ReduceByTree(lane, operation);
  }
  return absl::InternalError("a collective of an unknown kind");
}

int64_t SentBytes(const Operation& operation, int rank, int world_size) {
  const int64_t others = world_size - 1;
  const int64_t in_size = device::SizeOf(operation.in_dtype);
  int64_t bytes = 0;
  for (const Segment& segment : operation.segments) {
    const int64_t count = comm::PartElements(operation.kind, segment);
    const int64_t own = OwnPart(count, rank, world_size).count;
    switch (operation.kind) {
      case OpKind::kReduceScatter:
      case OpKind::kAllGather:
        bytes += others * count * in_size;
        break;
      case OpKind::kAllReduce:
        bytes += (count - own) * in_size + others * own * device::SizeOf(operation.out_dtype);
        break;
      case OpKind::kReduce:
        bytes += rank == operation.root ? 0 : count * in_size;
        break;
      case OpKind::kBroadcast:
        bytes += rank == operation.root ? others * count * in_size : 0;
        break;
      case OpKind::kBarrier:
      case OpKind::kFinalize:
        break;
    }
  }
  return bytes;
}

}  // namespace zeroshard::backends

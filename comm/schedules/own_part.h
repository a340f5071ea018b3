// Where this rank's own part lies in the output, and how its input comes there.
#pragma once

#include "zeroshard/comm/schedules/host_call.h"

namespace zeroshard::comm {

// All-gather: `in` [count] to this rank's part of `out`. Broadcast (the root): `in` to `out`. Nothing where it lies there already.
void PutOwnParts(const HostCall& call, int rank, int world_size);

// Where this rank's reduced part goes: reduce-scatter and reduce: `out`; all-reduce: its part of `out`.
inline std::byte* ReducedPart(const HostCall& call, const HostSegment& segment, int rank, int world_size) {
  if (call.kind != OpKind::kAllReduce) return segment.out;
  return segment.out + PartOf(call, segment, rank, world_size).first * call.out_size();
}

}  // namespace zeroshard::comm

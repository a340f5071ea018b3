#include "zeroshard/comm/schedules/own_part.h"

#include <cstring>

namespace zeroshard::comm {

void PutOwnParts(const HostCall& call, int rank, int world_size) {
  for (const HostSegment& segment : call.segments) {
    std::byte* to = segment.out;
    if (call.kind == OpKind::kAllGather) to += PartOf(call, segment, rank, world_size).first * call.out_size();
    if (to != segment.in) std::memcpy(to, segment.in, static_cast<size_t>(segment.count * call.in_size()));
  }
}

}  // namespace zeroshard::comm

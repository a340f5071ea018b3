// Reductions by the one tree over ranks: parts exchanged, then added by our kernel. See "Note: Reductions" in collectives.h.
//
// Note: Two levels. Where each node has the same number of consecutive ranks, a power of two (Lane::node_size), the sum over a node's
// ranks is a subtree: so all-reduce and reduce-scatter first add within the node, in fp32, and then send one sum between nodes in
// place of a part of each of the node's ranks: 1/node_size of the pieces, in fp32. The bits are those of one level.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "zeroshard/backends/nccl/lane.h"
#include "zeroshard/comm/operation.h"

namespace zeroshard::backends {

// The part of [count] elements that rank `rank` adds up in an all-reduce.
struct Part {
  int64_t first;
  int64_t count;
};
constexpr Part OwnPart(int64_t count, int rank, int world_size) {
  const int64_t least = count / world_size, longer = count % world_size;
  return {rank * least + (rank < longer ? rank : longer), least + (rank < longer ? 1 : 0)};
}

// All-reduce, reduce-scatter or reduce of floats, queued on the lane's stream.
absl::Status ReduceByTree(const Lane& lane, const comm::Operation& operation);

}  // namespace zeroshard::backends

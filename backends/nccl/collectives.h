// The collectives as calls of NCCL and kernels of ours, queued on a lane's stream; nothing waits on the host, nothing is allocated.
//
// Note: Reductions. By the tree (Reduction::kTree): ranks exchange parts (grouped sends and receives, the bytes of the direct schedule),
// and each adds what it owns in fp32 by the tree over ranks, with one rounding (reduce_rows.h): the bits of every other backend. What
// does not fit in scratch goes in pieces. Of NCCL (kNative): ncclReduceScatter and its kin with a sum, then our scale and conversion: each
// element is within (N - 1) u Σ|x| of the exact sum, u the unit roundoff of the dtype on the wire (bf16 2^-8, fp16 2^-11, fp32 2^-24),
// whatever NCCL's order; nobody promises two runs the same bits. Integers are exact in any order: always NCCL's own.
//
// Example:
//   ZS_RETURN_IF_ERROR(StartCollective(lane, operation, comm::Reduction::kTree));
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "zeroshard/backends/nccl/lane.h"
#include "zeroshard/comm/backend_registry.h"
#include "zeroshard/comm/operation.h"

namespace zeroshard::backends {

// Queues the operation on the lane's stream. World size 2 and more.
// Errors: kUnimplemented a maximum or minimum of floats by kNative: NCCL drops NaN. NCCL's and the launch's own.
absl::Status StartCollective(const Lane& lane, const comm::Operation& operation, comm::Reduction reduction);
// Whether StartCollective has it; its error else. Asked before anything is sent.
absl::Status CheckCollective(const comm::Operation& operation, comm::Reduction reduction);

// Data that this rank sends, by the direct schedules' formulas; bytes. NCCL's own algorithms send about as much.
int64_t SentBytes(const comm::Operation& operation, int rank, int world_size);

}  // namespace zeroshard::backends

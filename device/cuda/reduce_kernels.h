// Reductions of several ranks' parts on a CUDA stream, by the one tree (device/reduce_spec.h): the same bits as device/cpu's ReduceParts.
//
// Example: after an exchange of parts, the sum of four ranks' bf16 in fp32, rounded once; our own part was not sent.
//   cudaError_t error = ReduceParts(stream, {.in = DType::kBfloat16, .out = DType::kBfloat16},
//                                   {.received = slots, .parts = 4, .stride = count, .own = gradients, .own_part = rank}, shard);
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "zeroshard/device/array.h"
#include "zeroshard/device/reduce_spec.h"

namespace zeroshard::device::cuda {

// Where parts lie. Part j begins at element j * stride of `received`, but for part `own_part`, which is `own` where that is not empty.
struct PartsOfRanks {
  Array
      received;  // of the spec's `in`; at least ((parts - 1) stride + out's elements) of them, fewer where the last part is `own`
  int64_t parts = 0;   // 1 to kMaxReduceParts
  int64_t stride = 0;  // elements
  Array own = {};      // empty: all parts were received
  int64_t own_part = -1;
};

// out[i] = combination over j of part j's element i, divided and rounded once as the spec says. `out` may be one of the parts where
// both dtypes have one size, and overlaps none otherwise. Gives cudaErrorInvalidValue where CanReduce does not hold, or for a number
// of parts that is none.
cudaError_t ReduceParts(cudaStream_t stream, const ReduceSpec& spec, const PartsOfRanks& parts, const Array& out);

}  // namespace zeroshard::device::cuda

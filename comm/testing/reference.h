// What collectives must give, computed naively: the tree over ranks, element by element, in plain C++.
//
// Example:
//   const std::byte* columns[] = {rank 0's element, rank 1's element, ...};
//   ReduceElement(DType::kBfloat16, DType::kFloat32, ReduceOp::kAverage, columns, out);
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "zeroshard/comm/reduce_op.h"
#include "zeroshard/device/dtype.h"

namespace zeroshard::comm::testing {

// One element of each rank, in order of ranks, reduced to one of `out`.
void ReduceElement(device::DType in, device::DType out, ReduceOp op, std::span<const std::byte* const> ranks,
                   std::byte* result);

// Element `index` of rank `rank`'s input in case `seed`: floats of mixed size and sign, whose sum depends on its order.
void PutElement(device::DType dtype, uint64_t seed, int rank, int64_t index, std::byte* element);

float FromBfloat16(uint16_t bits);
uint16_t ToBfloat16(float value);
float FromFloat16(uint16_t bits);
uint16_t ToFloat16(float value);

}  // namespace zeroshard::comm::testing

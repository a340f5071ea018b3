// What device/cpu needs of memory beside what is asked of it; linking it, whole, registers that for "cpu" (device_needs.h).
#pragma once

#include "zeroshard/device/dtype.h"
#include "zeroshard/device/transformer_kernels.h"

namespace zeroshard::device {

// A block of logits stays in a cache of 2 MB; and so many rows times the vocabulary are what is held of them, the same bytes in every
// dtype. Fewer rows are 4 to 11 % slower. Rows are dense: oneDNN's bits depend on how far apart they lie.
constexpr LossBlocks CpuLossBlocks(DType dtype) { return {.rows = dtype == DType::kFloat32 ? 256 : 512, .columns = 512}; }

}  // namespace zeroshard::device

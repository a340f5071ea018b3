// Sums of squares of blocks of 64 fp32 elements, in fp64, in eight fixed lanes: lane j adds elements j, j + 8, ..., and
// lanes are added as ((0+4) + (2+6)) + ((1+5) + (3+7)). Squares of fp32 are exact in fp64. The same bits at any vector
// width.
//
// Example:
//   double sums[4];
//   SumSquaresOfBlocks(x, /*blocks=*/4, sums);   // x [256]
#pragma once

#include <cstddef>
#include <cstdint>

namespace zeroshard::device {

inline constexpr size_t kNormBlock = 64;

// sums[b] = Σ x^2 of block b. x [blocks * 64]; sums [blocks].
void SumSquaresOfBlocks(const float* x, size_t blocks, double* sums);

// The squares of x [count], block by block, added to `words` (exact_sum.h); the last block may be a part of one.
void AddSquaresOfBlocks(const float* x, size_t count, int64_t* words);

// Adds up eight lanes in the order above.
inline double AddLanes(const double* lanes) {
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

}  // namespace zeroshard::device

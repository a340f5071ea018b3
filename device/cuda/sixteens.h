// Rows that sixteen threads share: thread j takes elements j, j + 16, ... and what the sixteen have is added by halves. These are the
// sixteen lanes of device/cpu's kernels (lanes16-inl.h), so that sums over a row have the same bits there and here.
//
// Example: a kernel whose blocks take kRowsOfBlock rows each.
//   PerThread<float> sum;
//   ForEachRow(b, rows, [&](unsigned t, int64_t row) {
//     sum[t] = 0;
//     for (int64_t i = Lane(t); i < width; i += kLanesOfRow) sum[t] += x[row * width + i];
//   });
//   b.FoldGroups<kLanesOfRow>(sum, Plus());
#pragma once

#include <cstdint>

#include "zeroshard/device/cuda/launch.h"

namespace zeroshard::device::cuda {

inline constexpr unsigned kLanesOfRow = 16;
inline constexpr unsigned kRowThreads = 256;
inline constexpr unsigned kRowsOfBlock = kRowThreads / kLanesOfRow;

// One block for kRowsOfBlock rows; rows > 0.
inline Grid GridForRows(int64_t rows) {
  return {static_cast<unsigned>((rows + kRowsOfBlock - 1) / kRowsOfBlock), kRowThreads};
}

ZS_DEVICE int64_t Lane(unsigned t) { return t % kLanesOfRow; }

// A phase: body(t, row) for each thread that has a row, of the block_of_rows-th kRowsOfBlock rows.
template <class Body>
ZS_DEVICE void ForEachRowOf(Block& b, int64_t block_of_rows, int64_t rows, const Body& body) {
  b.ForEachThread([&](unsigned t) {
    const int64_t row = block_of_rows * kRowsOfBlock + t / kLanesOfRow;
    if (row < rows) body(t, row);
  });
}
// The same where each block takes the rows of its number.
template <class Body>
ZS_DEVICE void ForEachRow(Block& b, int64_t rows, const Body& body) {
  ForEachRowOf(b, b.index(), rows, body);
}

struct Plus {
  template <class T>
  ZS_DEVICE T operator()(T a, T b) const {
    return a + b;
  }
};
// The greater; the other where one is NaN.
struct Greater {
  template <class T>
  ZS_DEVICE T operator()(T a, T b) const {
    return a > b || b != b ? a : b;
  }
};

}  // namespace zeroshard::device::cuda

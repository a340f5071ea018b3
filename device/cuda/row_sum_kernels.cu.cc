#include "zeroshard/device/cuda/row_sum_kernels.h"

#include <cstdint>

#include "zeroshard/device/convert.h"
#include "zeroshard/device/cuda/lanes.h"
#include "zeroshard/device/cuda/launch.h"
#include "zeroshard/device/dtype_visitor.h"

namespace zeroshard::device::cuda {
namespace {

// A block adds up the rows of this many columns: 32 bytes of two-byte floats, what memory hands out at least.
constexpr unsigned kColumns = 16;
constexpr unsigned kThreads = 512;
// Bounds registers, so that a multiprocessor has room for two blocks: there are a few more than there are multiprocessors.
constexpr unsigned kBound = 2 * kThreads;
// Groups of four rows that a phase adds up for each column: kOfThread a thread, so that enough loads are under way.
constexpr unsigned kOfThread = 4;
constexpr unsigned kGroups = kThreads / kColumns * kOfThread;

// The order is device/cpu's: four rows by a tree, those sums one after another, then what is left row by row. So that the chain does
// not wait for memory, nor memory for the chain, one phase loads this turn's groups of four, chains the last turn's, and adds its own.
template <class T, class Sum>
ZS_DEVICE void SumKernel(Block& b, int64_t rows, int64_t width, bool accumulate, In<T> x, InOut<Sum> sum) {
  const int64_t first = int64_t{b.index()} * kColumns, fours = rows / 4, turns = (fours + kGroups - 1) / kGroups;
  ZS_SHARED(float, groups, 2 * kGroups * kColumns);
  PerThread<float> total;
  b.ForEachThread([&](unsigned t) { total[t] = 0; });
  const auto at = [&](int64_t row, int64_t column) { return WidenUniformly(x[static_cast<size_t>(row * width + column)]); };
  for (int64_t turn = 0; turn <= turns; ++turn) {
    b.ForEachThread([&](unsigned t) {
      const int64_t column = first + t % kColumns;
      if (column >= width) return;
      float loaded[kOfThread][4];
      ZS_UNROLL
      for (unsigned of = 0; of < kOfThread; ++of) {
        const int64_t four = turn * kGroups + of * (kGroups / kOfThread) + t / kColumns;
        ZS_UNROLL
        for (int row = 0; row < 4; ++row) loaded[of][row] = four < fours ? at(4 * four + row, column) : 0.0f;
      }
      if (t < kColumns && turn > 0) {
        const int64_t left = fours - (turn - 1) * kGroups, chained = left < kGroups ? left : kGroups;
        ZS_UNROLL_BY(8)
        for (int64_t group = 0; group < chained; ++group) {
          total[t] += groups[((turn - 1) % 2 * kGroups + group) * kColumns + t];
        }
      }
      ZS_UNROLL
      for (unsigned of = 0; of < kOfThread; ++of) {
        const int64_t group = of * (kGroups / kOfThread) + t / kColumns;
        const float upper = loaded[of][0] + loaded[of][1], lower = loaded[of][2] + loaded[of][3];
        groups[(turn % 2 * kGroups + group) * kColumns + t % kColumns] = upper + lower;
      }
    });
  }
  b.ForEachThread([&](unsigned t) {
    const int64_t column = first + t;
    if (t >= kColumns || column >= width) return;
    float all = total[t];
    ZS_UNROLL_BY(1)
    for (int64_t row = 4 * fours; row < rows; ++row) all += at(row, column);
    Sum& to = sum[static_cast<size_t>(column)];
    to = Narrow<Sum>(accumulate ? Widen(to) + all : all);
  });
}

}  // namespace

cudaError_t SumRows(cudaStream_t stream, const Array& x, const Array& sum, WriteMode mode) {
  if (sum.empty()) return cudaSuccess;
  const int64_t width = sum.elements();
  const Grid grid{static_cast<unsigned>((width + kColumns - 1) / kColumns), kThreads};
  cudaError_t error = cudaSuccess;
  VisitActivation(x.dtype(), [&]<class T>(TypeTag<T>) {
    VisitActivation(sum.dtype(), [&]<class Sum>(TypeTag<Sum>) {
      error = LaunchBlocks<SumKernel<T, Sum>, kBound>(stream, grid, x.elements() / width, width,
                                                      mode == WriteMode::kAccumulate, Reads<T>(x), Updates<Sum>(sum));
    });
  });
  return error;
}

}  // namespace zeroshard::device::cuda

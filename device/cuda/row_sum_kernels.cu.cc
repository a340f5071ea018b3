#include "zeroshard/device/cuda/row_sum_kernels.h"

#include <array>
#include <cstdint>
#include <span>

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

struct SumShape {
  int64_t rows = 0, width = 0;
  int64_t blocks = 0;  // that take kColumns each
  bool accumulate = false;
};

// Columns from `first` on of one sum. The order is device/cpu's: four rows by a tree, those sums one after another, then what is left row
// by row. So that the chain does not wait for memory, nor memory for the chain, one phase loads this turn's groups of four, chains the
// last turn's, and adds its own.
template <class T, class Sum>
ZS_DEVICE void SumColumns(Block& b, const SumShape& shape, int64_t first, const In<T>& x, const InOut<Sum>& sum) {
  const int64_t rows = shape.rows, width = shape.width, fours = rows / 4, turns = (fours + kGroups - 1) / kGroups;
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
    to = Narrow<Sum>(shape.accumulate ? Widen(to) + all : all);
  });
}

struct SumShapes {
  SumShape of[kMostRowSums];
};

// Up to kMostRowSums sums; blocks take their columns in turn, sum after sum.
template <class T, class Sum>
ZS_DEVICE void SumsKernel(Block& b, const SumShapes& shapes, In<T> x0, In<T> x1, In<T> x2, InOut<Sum> sum0, InOut<Sum> sum1,
                          InOut<Sum> sum2) {
  int64_t block = b.index();
  int i = 0;
  while (block >= shapes.of[i].blocks) block -= shapes.of[i++].blocks;
  const In<T> x = i == 0 ? x0 : i == 1 ? x1 : x2;
  const InOut<Sum> sum = i == 0 ? sum0 : i == 1 ? sum1 : sum2;
  SumColumns(b, shapes.of[i], block * kColumns, x, sum);
}

}  // namespace

cudaError_t SumRows(cudaStream_t stream, std::span<const RowSum> sums) {
  static_assert(kMostRowSums == 3, "as many as SumsKernel takes");
  SumShapes shapes;
  std::array<Array, kMostRowSums> x, sum;
  int64_t blocks = 0;
  for (size_t i = 0; i < sums.size(); ++i) {
    x[i] = sums[i].x;
    sum[i] = sums[i].sum;
    const int64_t width = sum[i].elements();
    shapes.of[i] = {.rows = x[i].elements() / width,
                    .width = width,
                    .blocks = (width + kColumns - 1) / kColumns,
                    .accumulate = sums[i].mode == WriteMode::kAccumulate};
    blocks += shapes.of[i].blocks;
  }
  const Grid grid{static_cast<unsigned>(blocks), kThreads};
  cudaError_t error = cudaSuccess;
  VisitActivation(x[0].dtype(), [&]<class T>(TypeTag<T>) {
    VisitActivation(sum[0].dtype(), [&]<class Sum>(TypeTag<Sum>) {
      error = LaunchBlocks<SumsKernel<T, Sum>, kBound>(stream, grid, shapes, Reads<T>(x[0]), Reads<T>(x[1]), Reads<T>(x[2]),
                                                       Updates<Sum>(sum[0]), Updates<Sum>(sum[1]), Updates<Sum>(sum[2]));
    });
  });
  return error;
}

}  // namespace zeroshard::device::cuda

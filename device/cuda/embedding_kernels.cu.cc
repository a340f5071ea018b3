#include "zeroshard/device/cuda/embedding_kernels.h"

#include <algorithm>
#include <cstdint>

#include "zeroshard/device/convert.h"
#include "zeroshard/device/cuda/elementwise_kernels.h"
#include "zeroshard/device/cuda/fours.h"
#include "zeroshard/device/cuda/lanes.h"
#include "zeroshard/device/cuda/launch.h"
#include "zeroshard/device/cuda/token_rows.h"
#include "zeroshard/device/dtype_visitor.h"

namespace zeroshard::device::cuda {
namespace {

// Rows, spread over blocks.
template <class T>
ZS_DEVICE void EmbedKernel(Thread t, bool aligned, int64_t width, int64_t context, In<int32_t> tokens, In<T> table,
                           In<T> positions, Out<float> x) {
  for (int64_t row = t.block; row < static_cast<int64_t>(tokens.n); row += t.blocks) {
    const int64_t word = tokens[static_cast<size_t>(row)] * width, place = row % context * width;
    ForLanes(Thread{0, t.index, 1, t.threads}, width, aligned, [&](auto lanes, int64_t i) {
      auto sum = Load<lanes()>(table, word + i);
      const auto more = Load<lanes()>(positions, place + i);
      for (int j = 0; j < lanes(); ++j) sum.v[j] += more.v[j];
      Store(sum, x, row * width + i);
    });
  }
}

template <class T>
ZS_DEVICE void PositionsKernel(Thread t, bool anew, int64_t batch, In<float> d_x, InOut<T> d_positions) {
  for (size_t i = t.Global(); i < d_positions.n; i += t.Stride()) {
    float sum = 0;
    for (int64_t sequence = 0; sequence < batch; ++sequence) sum += d_x[static_cast<size_t>(sequence) * d_positions.n + i];
    d_positions[i] = Narrow<T>(anew ? sum : Widen(d_positions[i]) + sum);
  }
}

// Each listed token's rows, in fp32, in their order, onto what its row of d_table holds, rounded once.
template <class T, class Listed>
ZS_DEVICE void AddListed(Block& b, int64_t width, int64_t first_column, Listed& listed, int found, const In<float>& d_x,
                         const InOut<T>& d_table) {
  b.ForEachThread([&](unsigned t) {
    const int64_t column = first_column + t;
    if (column >= width) return;
    for (int entry = 0; entry < found; ++entry) {
      if (!listed[entry].begins) continue;
      T& to = d_table[static_cast<size_t>(listed[entry].token * width + column)];
      float sum = Widen(to);
      for (int next = entry; next >= 0;) {
        // Four loads under way at a time.
        constexpr int kAhead = 4;
        float more[kAhead];
        bool has[kAhead];
        ZS_UNROLL
        for (int j = 0; j < kAhead; ++j) {
          has[j] = next >= 0;
          more[j] = has[j] ? d_x[static_cast<size_t>(listed[next].row * width + column)] : 0;
          if (has[j]) next = listed[next].next;
        }
        ZS_UNROLL
        for (int j = 0; j < kAhead; ++j) {
          if (has[j]) sum += more[j];
        }
      }
      to = Narrow<T>(sum);
    }
  });
}

// The same for the one token of a set that has more rows than a list: list after list.
template <class T, class Listed, class Counts>
ZS_DEVICE void AddOneToken(Block& b, int64_t width, int64_t first_column, const TokenSet& one, int found, Listed& listed,
                           Counts& counts, const In<int32_t>& tokens, const In<float>& d_x, const InOut<T>& d_table) {
  const int64_t word = int64_t{one.first} * one.classes + one.of_class;
  PerThread<float> sum;
  b.ForEachThread([&](unsigned t) {
    const int64_t column = first_column + t;
    sum[t] = column < width ? Widen(d_table[static_cast<size_t>(word * width + column)]) : 0;
  });
  for (int done = 0; done < found; done += kListedRows) {
    ListRows(b, tokens, one, done, listed, counts);
    const int count = found - done < kListedRows ? found - done : kListedRows;
    b.ForEachThread([&](unsigned t) {
      const int64_t column = first_column + t;
      if (column >= width) return;
      ZS_UNROLL_BY(8)
      for (int entry = 0; entry < count; ++entry) sum[t] += d_x[static_cast<size_t>(listed[entry].row * width + column)];
    });
  }
  b.ForEachThread([&](unsigned t) {
    const int64_t column = first_column + t;
    if (column < width) d_table[static_cast<size_t>(word * width + column)] = Narrow<T>(sum[t]);
  });
}

// A block adds the rows of one class of tokens, one column a thread: of the whole class at once, as a rule, and of ever smaller parts of
// it where their rows are too many for a list.
template <class T>
ZS_DEVICE void TokensKernel(Block& b, int64_t width, unsigned classes, In<int32_t> tokens, In<float> d_x, InOut<T> d_table) {
  const int64_t first_column = int64_t{b.index() / classes} * kTokenThreads;
  const auto words = static_cast<unsigned>(static_cast<int64_t>(d_table.n) / width);
  const unsigned all = (words + classes - 1) / classes;
  ZS_SHARED(TokenRow, listed, kListedRows);
  ZS_SHARED(int, counts, 2 * kTokenThreads);
  TokenSet set = {.classes = classes, .of_class = b.index() % classes, .first = 0, .end = all};
  while (set.first < all) {
    const int found = ListRows(b, tokens, set, /*skipped=*/0, listed, counts);
    if (found > kListedRows && set.end - set.first > 1) {
      set.end = set.first + (set.end - set.first) / 2;
      continue;
    }
    if (found > kListedRows) {
      AddOneToken(b, width, first_column, set, found, listed, counts, tokens, d_x, d_table);
    } else {
      ChainTokens(b, listed, found);
      AddListed(b, width, first_column, listed, found, d_x, d_table);
    }
    set.first = set.end;
    set.end = all;
  }
}

}  // namespace

cudaError_t Embed(cudaStream_t stream, const Array& tokens, const Array& table, const Array& positions, const Array& x) {
  if (tokens.empty()) return cudaSuccess;
  const int64_t rows = tokens.elements(), width = x.elements() / rows, context = positions.elements() / width;
  const bool aligned = width % 4 == 0 && Aligned({table, positions, x});
  const Grid grid{static_cast<unsigned>(std::min<int64_t>(rows, 1 << 16)), width <= 512 ? 128u : 256u};
  cudaError_t error = cudaSuccess;
  VisitActivation(table.dtype(), [&]<class T>(TypeTag<T>) {
    error = Launch<EmbedKernel<T>>(stream, grid, aligned, width, context, Reads<int32_t>(tokens), Reads<T>(table),
                                   Reads<T>(positions), Writes<float>(x));
  });
  return error;
}

cudaError_t EmbedTokensBackward(cudaStream_t stream, const Array& tokens, const Array& d_x, const Array& d_table,
                                WriteMode mode) {
  if (mode == WriteMode::kOverwrite) {
    if (const cudaError_t error = Fill(stream, d_table, 0); error != cudaSuccess) return error;
  }
  if (tokens.empty()) return cudaSuccess;
  const int64_t width = d_x.elements() / tokens.elements();
  const unsigned classes = TokenClasses(tokens.elements());
  const Grid grid{classes * static_cast<unsigned>((width + kTokenThreads - 1) / kTokenThreads), kTokenThreads};
  cudaError_t error = cudaSuccess;
  VisitActivation(d_table.dtype(), [&]<class T>(TypeTag<T>) {
    error = LaunchBlocks<TokensKernel<T>>(stream, grid, width, classes, Reads<int32_t>(tokens), Reads<float>(d_x),
                                          Updates<T>(d_table));
  });
  return error;
}

cudaError_t EmbedPositionsBackward(cudaStream_t stream, const Array& d_x, const Array& d_positions, WriteMode mode) {
  if (d_positions.empty()) return cudaSuccess;
  const int64_t batch = d_x.elements() / d_positions.elements();
  cudaError_t error = cudaSuccess;
  VisitActivation(d_positions.dtype(), [&]<class T>(TypeTag<T>) {
    error = Launch<PositionsKernel<T>>(stream, GridFor(d_positions.elements()), mode == WriteMode::kOverwrite, batch,
                                       Reads<float>(d_x), Updates<T>(d_positions));
  });
  return error;
}

}  // namespace zeroshard::device::cuda

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "zeroshard/device/convert.h"
#include "zeroshard/device/cpu/cpu_transformer_kernels.h"
#include "zeroshard/device/cpu/parallel.h"
#include "zeroshard/device/dtype_visitor.h"
#include "zeroshard/device/host_launch.h"
#include "zeroshard/device/kernel_checks.h"

namespace zeroshard::device {
namespace {

using std::byte;
using Bytes = std::span<byte>;
using ConstBytes = std::span<const byte>;
using Floats = std::span<float>;
using ConstFloats = std::span<const float>;
using Tokens = std::span<const int32_t>;

constexpr int64_t kRowsPerStretch = 16;
// Of the width: a thread adds up its own columns of every row, in the order of the rows.
constexpr int64_t kColumnsPerStretch = 64;

// x[width] = word + place.
template <class T>
void AddRow(const T* word, const T* place, float* x, int64_t width) {
  for (int64_t i = 0; i < width; ++i) x[i] = Widen(word[i]) + Widen(place[i]);
}

// The first row in [from, last) with that token; last if there is none.
int64_t FindToken(const int32_t* tokens, int32_t token, int64_t from, int64_t last) {
  constexpr int64_t kBlock = 64;
  for (; from + kBlock <= last; from += kBlock) {
    int32_t found = 0;
    for (int64_t i = 0; i < kBlock; ++i) found |= tokens[from + i] == token ? 1 : 0;
    if (found != 0) break;
  }
  while (from < last && tokens[from] != token) ++from;
  return from;
}

struct TokenGradients {
  const int32_t* tokens;
  int64_t rows, width;
  const float* d_x;  // [rows, width]
};

// Columns [first, last), at most kColumnsPerStretch: each token's rows are added up in fp32, in their order, onto what its row of
// d_table holds, and rounded once.
template <class T>
void AddTokenGradients(const TokenGradients& g, T* d_table, int64_t first, int64_t last) {
  for (int64_t row = 0; row < g.rows; ++row) {
    const int32_t token = g.tokens[row];
    if (FindToken(g.tokens, token, 0, row) < row) continue;
    T* const word = d_table + token * g.width + first;
    float sum[kColumnsPerStretch];
    for (int64_t i = 0; i < last - first; ++i) sum[i] = Widen(word[i]);
    for (int64_t next = row; next < g.rows; next = FindToken(g.tokens, token, next + 1, g.rows)) {
      const float* d = g.d_x + next * g.width + first;
      for (int64_t i = 0; i < last - first; ++i) sum[i] += d[i];
    }
    for (int64_t i = 0; i < last - first; ++i) word[i] = Narrow<T>(sum[i]);
  }
}

// The same in fp32, where adding to memory rounds no more.
template <>
void AddTokenGradients<float>(const TokenGradients& g, float* d_table, int64_t first, int64_t last) {
  for (int64_t row = 0; row < g.rows; ++row) {
    float* const word = d_table + g.tokens[row] * g.width;
    for (int64_t i = first; i < last; ++i) word[i] += g.d_x[row * g.width + i];
  }
}

}  // namespace

void CpuTransformerKernels::Embed(Stream& stream, In tokens, In table, In positions, Out x) {
  kernel_checks::Embed(tokens.array, table.array, positions.array, x.array);
  const int64_t rows = tokens.array.elements(), width = x.array.elements() / rows;
  const int64_t context = positions.array.elements() / width;
  const DType dtype = table.array.dtype();
  const auto run = [=, threads = threads_](Tokens ids, ConstBytes words, ConstBytes places, Floats to) {
    VisitActivation(dtype, [&]<class T>(TypeTag<T>) {
      const T* const word = reinterpret_cast<const T*>(words.data());
      const T* const place = reinterpret_cast<const T*>(places.data());
      ParallelFor(threads, rows, kRowsPerStretch, [&](int64_t first, int64_t last) {
        for (int64_t row = first; row < last; ++row) {
          AddRow(word + ids[row] * width, place + row % context * width, to.data() + row * width, width);
        }
      });
    });
  };
  HostLaunch(stream, "embedding", run, Read<int32_t>(tokens), Read<byte>(table), Read<byte>(positions), Write<float>(x));
}

void CpuTransformerKernels::EmbedTokensBackward(Stream& stream, In tokens, In d_x, InOut d_table, WriteMode mode) {
  kernel_checks::EmbedTokensBackward(tokens.array, d_x.array, d_table.array);
  const int64_t rows = tokens.array.elements(), width = d_x.array.elements() / rows;
  const bool anew = mode == WriteMode::kOverwrite;
  const DType dtype = d_table.array.dtype();
  const auto run = [=, threads = threads_](Tokens ids, ConstFloats d, Bytes to) {
    if (anew) {
      ParallelFor(threads, static_cast<int64_t>(to.size()), kRowsPerStretch * width, [&](int64_t first, int64_t last) {
        std::memset(to.data() + first, 0, static_cast<size_t>(last - first));
      });
    }
    const TokenGradients gradients{ids.data(), rows, width, d.data()};
    VisitActivation(dtype, [&]<class T>(TypeTag<T>) {
      ParallelFor(threads, (width + kColumnsPerStretch - 1) / kColumnsPerStretch, 1, [&](int64_t begin, int64_t end) {
        for (int64_t first = begin * kColumnsPerStretch; first < std::min(end * kColumnsPerStretch, width);
             first += kColumnsPerStretch) {
          AddTokenGradients(gradients, reinterpret_cast<T*>(to.data()), first, std::min(first + kColumnsPerStretch, width));
        }
      });
    });
  };
  if (anew) {
    HostLaunch(stream, "embedding backward", run, Read<int32_t>(tokens), Read<float>(d_x), Write<byte>(d_table.array));
  } else {
    HostLaunch(stream, "embedding backward", run, Read<int32_t>(tokens), Read<float>(d_x), Update<byte>(d_table));
  }
}

void CpuTransformerKernels::EmbedPositionsBackward(Stream& stream, In d_x, InOut d_positions, WriteMode mode) {
  kernel_checks::EmbedPositionsBackward(d_x.array, d_positions.array);
  const int64_t places = d_positions.array.elements(), batch = d_x.array.elements() / places;
  const bool anew = mode == WriteMode::kOverwrite;
  const DType dtype = d_positions.array.dtype();
  const auto run = [=, threads = threads_](ConstFloats d, Bytes bytes) {
    VisitActivation(dtype, [&]<class T>(TypeTag<T>) {
      T* const to = reinterpret_cast<T*>(bytes.data());
      ParallelFor(threads, places, kColumnsPerStretch * kRowsPerStretch, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
          float sum = 0;
          for (int64_t b = 0; b < batch; ++b) sum += d[b * places + i];
          to[i] = Narrow<T>(anew ? sum : Widen(to[i]) + sum);
        }
      });
    });
  };
  if (anew) {
    HostLaunch(stream, "positions backward", run, Read<float>(d_x), Write<byte>(d_positions.array));
  } else {
    HostLaunch(stream, "positions backward", run, Read<float>(d_x), Update<byte>(d_positions));
  }
}

}  // namespace zeroshard::device

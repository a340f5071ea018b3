#include <algorithm>
#include <span>

#include "glog/logging.h"
#include "zeroshard/device/cpu/cpu_transformer_kernels.h"
#include "zeroshard/device/cpu/parallel.h"
#include "zeroshard/device/host_launch.h"

namespace zeroshard::device {
namespace {

using Floats = std::span<float>;
using ConstFloats = std::span<const float>;
using Tokens = std::span<const int32_t>;

constexpr int64_t kRowsPerStretch = 16;
// Of the width: a thread adds up its own columns of every row, in the order of the rows.
constexpr int64_t kColumnsPerStretch = 64;

int64_t Width(const Array& matrix, int64_t rows, const char* what) {
  CHECK(rows > 0 && matrix.elements() % rows == 0)
      << what << ": " << matrix.elements() << " elements in " << rows << " rows";
  return matrix.elements() / rows;
}

}  // namespace

void CpuTransformerKernels::Embed(Stream& stream, In tokens, In table, In positions, Out x) {
  const int64_t rows = tokens.array.elements(), width = Width(x.array, rows, "embedding");
  const int64_t context = positions.array.elements() / width;
  const auto run = [rows, width, context, threads = threads_](Tokens ids, ConstFloats words, ConstFloats places, Floats to) {
    ParallelFor(threads, rows, kRowsPerStretch, [&](int64_t first, int64_t last) {
      for (int64_t row = first; row < last; ++row) {
        const float* word = words.data() + ids[row] * width;
        const float* place = places.data() + row % context * width;
        for (int64_t i = 0; i < width; ++i) to[row * width + i] = word[i] + place[i];
      }
    });
  };
  HostLaunch(stream, "embedding", run, Read<int32_t>(tokens), Read<float>(table), Read<float>(positions), Write<float>(x));
}

void CpuTransformerKernels::EmbedTokensBackward(Stream& stream, In tokens, In d_x, InOut d_table, WriteMode mode) {
  const int64_t rows = tokens.array.elements(), width = Width(d_x.array, rows, "embedding backward");
  const bool anew = mode == WriteMode::kOverwrite;
  const auto run = [rows, width, anew, threads = threads_](Tokens ids, ConstFloats d, Floats to) {
    const int64_t words = static_cast<int64_t>(to.size()) / width;
    if (anew) {
      ParallelFor(threads, words, kRowsPerStretch, [&](int64_t first, int64_t last) {
        std::fill(to.data() + first * width, to.data() + last * width, 0.0f);
      });
    }
    ParallelFor(threads, width, kColumnsPerStretch, [&](int64_t first, int64_t last) {
      for (int64_t row = 0; row < rows; ++row) {
        float* word = to.data() + ids[row] * width;
        for (int64_t i = first; i < last; ++i) word[i] += d[row * width + i];
      }
    });
  };
  if (anew) {
    HostLaunch(stream, "embedding backward", run, Read<int32_t>(tokens), Read<float>(d_x), Write<float>(d_table.array));
  } else {
    HostLaunch(stream, "embedding backward", run, Read<int32_t>(tokens), Read<float>(d_x), Update<float>(d_table));
  }
}

void CpuTransformerKernels::EmbedPositionsBackward(Stream& stream, In d_x, InOut d_positions, WriteMode mode) {
  const int64_t places = d_positions.array.elements(), batch = Width(d_x.array, places, "positions backward");
  const bool anew = mode == WriteMode::kOverwrite;
  const auto run = [places, batch, anew, threads = threads_](ConstFloats d, Floats to) {
    ParallelFor(threads, places, kColumnsPerStretch * kRowsPerStretch, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        float sum = 0;
        for (int64_t b = 0; b < batch; ++b) sum += d[b * places + i];
        to[i] = anew ? sum : to[i] + sum;
      }
    });
  };
  if (anew) {
    HostLaunch(stream, "positions backward", run, Read<float>(d_x), Write<float>(d_positions.array));
  } else {
    HostLaunch(stream, "positions backward", run, Read<float>(d_x), Update<float>(d_positions));
  }
}

}  // namespace zeroshard::device

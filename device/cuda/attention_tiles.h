// What the kernels of attention share: a tile of positions of one head, and which thread works on what.
//
// A block of 256 threads takes kRows positions of a head, 256 / kRows threads each; of a position's head_width numbers a thread keeps
// kColumns, its first and every (256 / kRows)-th from it. So kRows follows from the head's width, and tiles are of one size in shared
// memory whatever it is. Rows lie one number further apart than they are wide, so that threads which read down a column meet no bank
// twice.
//
// Example:
//   using Tiles = AttentionTiles<32>;               // up to 64 numbers a head
//   ZS_SHARED(float, keys, Tiles::kElements);
//   Tiles::Load(b, at, qkv, first, keys);
#pragma once

#include <cstdint>

#include "zeroshard/device/attention.h"
#include "zeroshard/device/convert.h"
#include "zeroshard/device/cuda/lanes.h"
#include "zeroshard/device/cuda/launch.h"

namespace zeroshard::device::cuda {

inline constexpr unsigned kAttentionThreads = 256;
// Of a position's numbers, those that one thread keeps.
inline constexpr int kColumns = 8;

// Where one head of one sequence lies. Of qkv a row is 3 * width wide, of the others width.
struct HeadPlace {
  int64_t context, head_width, width;
  int64_t sequence, head;

  // The head's first number at a position in part 0, 1 or 2 (queries, keys, values) of qkv, or in a matrix of [rows, width].
  ZS_DEVICE int64_t InQkv(int64_t position, int part) const {
    return ((sequence * context + position) * 3 + part) * width + head * head_width;
  }
  ZS_DEVICE int64_t InRows(int64_t position) const { return (sequence * context + position) * width + head * head_width; }
  // Its number for a position in [batch, heads, context].
  ZS_DEVICE int64_t InSums(int64_t position) const { return (sequence * (width / head_width) + head) * context + position; }
};

template <unsigned kRowsOfTile>
struct AttentionTiles {
  static constexpr unsigned kRows = kRowsOfTile;
  // Threads of a row, and numbers of a row of scores that one of them takes.
  static constexpr unsigned kGroup = kAttentionThreads / kRows;
  static constexpr int kScores = kRows > kGroup ? kRows / kGroup : 1;
  static constexpr unsigned kMostWidth = kColumns * kGroup;
  // Of a tile, and of the scores of one tile against another.
  static constexpr unsigned kElements = kRows * (kMostWidth + 1);
  static constexpr unsigned kScoreStride = kRows + 1;
  static constexpr unsigned kScoreElements = kRows * kScoreStride;

  ZS_DEVICE static unsigned Row(unsigned t) { return t / kGroup; }
  ZS_DEVICE static unsigned Column(unsigned t, int j) { return t % kGroup + static_cast<unsigned>(j) * kGroup; }

  // Tiles of `context` positions.
  static int64_t Count(int64_t context) { return (context + kRows - 1) / kRows; }

  // tile = the head's numbers at positions [first, first + kRows), 0 past the context; at(position) gives where they begin in x.
  template <class Memory, class Tile, class At>
  ZS_DEVICE static void Load(unsigned t, const HeadPlace& place, const Memory& x, int64_t first, Tile& tile, const At& at) {
    const int64_t position = first + Row(t);
    for (int j = 0; j < kColumns; ++j) {
      const unsigned column = Column(t, j);
      if (column >= place.head_width) continue;
      const bool is_there = position < place.context;
      tile[Row(t) * (place.head_width + 1) + column] =
          is_there ? WidenUniformly(x[static_cast<size_t>(at(position) + column)]) : 0.0f;
    }
  }

  // sums[j] = row `row` of a times row Column(t, j) of b.
  template <class A, class B>
  ZS_DEVICE static void Products(unsigned t, int64_t head_width, unsigned row, A& a, B& b, float (&sums)[kScores]) {
    const auto stride = static_cast<unsigned>(head_width) + 1;
    for (float& sum : sums) sum = 0;
    for (unsigned i = 0; i + 1 < stride; ++i) {
      const float x = a[row * stride + i];
      ZS_UNROLL
      for (int j = 0; j < kScores; ++j) {
        if (kRows >= kGroup || Column(t, j) < kRows) sums[j] = fmaf(x, b[Column(t, j) * stride + i], sums[j]);
      }
    }
  }

  // sums[j] += the row's scores times column Column(t, j) of b.
  template <class Scores, class B>
  ZS_DEVICE static void AddWeighted(unsigned t, int64_t head_width, Scores& scores, B& b, float (&sums)[kColumns]) {
    const auto stride = static_cast<unsigned>(head_width) + 1;
    for (unsigned other = 0; other < kRows; ++other) {
      const float weight = scores[Row(t) * kScoreStride + other];
      ZS_UNROLL
      for (int j = 0; j < kColumns; ++j) {
        if (Column(t, j) < head_width) sums[j] = fmaf(weight, b[other * stride + Column(t, j)], sums[j]);
      }
    }
  }

  // x from at(position) on = a thread's numbers, rounded once; nothing past the context.
  template <class T, class At>
  ZS_DEVICE static void Write(unsigned t, const HeadPlace& place, int64_t first, const float (&numbers)[kColumns],
                              float factor, const Out<T>& x, const At& at) {
    const int64_t position = first + Row(t);
    if (position >= place.context) return;
    ZS_UNROLL
    for (int j = 0; j < kColumns; ++j) {
      const unsigned column = Column(t, j);
      if (column < place.head_width) x[static_cast<size_t>(at(position) + column)] = NarrowUniformly<T>(numbers[j] * factor);
    }
  }
};

// A thread's numbers of its row.
struct RowNumbers {
  float v[kColumns];
};

// Which head and which tile a block of a grid of [batch * heads, tiles] takes.
struct AttentionBlock {
  HeadPlace place;
  int64_t tile;
};
ZS_DEVICE AttentionBlock BlockOf(const AttentionSpec& spec, int64_t index, int64_t tiles) {
  const int64_t of = index / tiles;
  return {{spec.context, spec.head_width, spec.heads * spec.head_width, of / spec.heads, of % spec.heads}, index % tiles};
}

}  // namespace zeroshard::device::cuda

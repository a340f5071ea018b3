// Pieces (device/pieces.h) spread over a grid: cut in chunks of four elements a thread, which blocks take in turn, piece after piece. So
// large pieces and small ones share one launch, and no block has much more than another.
//
// Example: y = of * y, each piece by its own.
//   b.ForEachThread([&](unsigned t) {
//     ForEachPiece(b, pieces, [&](int p, int64_t chunk) {
//       ForLanesOfPiece(b, t, pieces[p], chunk, aligned, [&](auto lanes, int64_t i) { ... });
//     });
//   });
//   LaunchBlocks<ScaleKernel>(stream, GridFor(pieces), Aligned(pieces) && Aligned({y}), pieces, Updates<float>(y));
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "zeroshard/device/cuda/fours.h"
#include "zeroshard/device/cuda/lanes.h"
#include "zeroshard/device/cuda/launch.h"
#include "zeroshard/device/host_device.h"
#include "zeroshard/device/pieces.h"

namespace zeroshard::device::cuda {

inline constexpr unsigned kPieceThreads = 256;
inline constexpr int64_t kPieceChunk = 4 * kPieceThreads;
ZS_HOST_DEVICE constexpr int64_t ChunksOf(int64_t elements) { return (elements + kPieceChunk - 1) / kPieceChunk; }

// Whether each begins where four elements may be loaded at a time, if its array does.
template <class Of>
bool Aligned(const Pieces<Of>& pieces) {
  return std::all_of(pieces.begin(), pieces.end(), [](const Piece<Of>& piece) { return piece.first % 4 == 0; });
}

// One block for each chunk, as far as GridFor goes.
template <class Of>
Grid GridFor(const Pieces<Of>& pieces) {
  int64_t chunks = 0;
  for (const Piece<Of>& piece : pieces) chunks += ChunksOf(piece.count);
  return GridFor(chunks * kPieceThreads);
}

// body(p, chunk) for each piece of which the block has chunks: `chunk` of that piece, and each blocks()-th after it.
template <class Of, class Body>
ZS_DEVICE void ForEachPiece(const Block& b, const Pieces<Of>& pieces, const Body& body) {
  int64_t chunk = b.index(), end = 0;
  for (int p = 0; p < pieces.size(); ++p) {
    const int64_t first = end;
    end += ChunksOf(pieces[p].count);
    if (chunk >= end) continue;
    body(p, chunk - first);
    while (chunk < end) chunk += b.blocks();
  }
}

// body(integral_constant<int, lanes>, i) for the elements i, counted as the piece's `first` is, that thread t has of those chunks.
template <class Of, class Body>
ZS_DEVICE void ForLanesOfPiece(const Block& b, unsigned t, const Piece<Of>& piece, int64_t chunk, bool aligned,
                               const Body& body) {
  const int64_t end = piece.first + piece.count;
  for (int64_t i = piece.first + chunk * kPieceChunk + 4 * int64_t{t}; i < end; i += b.blocks() * kPieceChunk) {
    if (aligned && i + 4 <= end) {
      body(std::integral_constant<int, 4>(), i);
    } else {
      for (int64_t j = i; j < end && j < i + 4; ++j) body(std::integral_constant<int, 1>(), j);
    }
  }
}

}  // namespace zeroshard::device::cuda

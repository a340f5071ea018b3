#include "zeroshard/device/cuda/norm_kernels.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "zeroshard/device/convert.h"
#include "zeroshard/device/cuda/atomics.h"
#include "zeroshard/device/cuda/exact_words.h"
#include "zeroshard/device/cuda/fours.h"
#include "zeroshard/device/cuda/grid_of_pieces.h"
#include "zeroshard/device/cuda/lanes.h"
#include "zeroshard/device/cuda/launch.h"
#include "zeroshard/device/dtype_visitor.h"
#include "zeroshard/device/exact_sum.h"
#include "zeroshard/device/host_device.h"
#include "zeroshard/device/pieces.h"

namespace zeroshard::device::cuda {
namespace {

ZS_DEVICE double PowerOf(double x, double p) {
  const double magnitude = std::fabs(x);
  return p == 1 ? magnitude : std::pow(magnitude, p);
}

ZS_HOST_DEVICE int64_t AllBlocksOf(const Pieces<Plain>& pieces) {
  int64_t blocks = 0;
  for (int p = 0; p < pieces.size(); ++p) blocks += BlocksOf(pieces[p].count);
  return blocks;
}

// Elements [first, end).
struct Stretch {
  int64_t first, end;
};

// The blocks of all pieces, by their number from the first piece's first on: each of kNormBlock elements, a piece's last one of fewer.
class BlockOfPieces {
 public:
  explicit ZS_DEVICE BlockOfPieces(const Pieces<Plain>& pieces) : pieces_(pieces) {}
  // Of ascending blocks.
  ZS_DEVICE Stretch operator()(int64_t block) {
    while (block - passed_ >= BlocksOf(pieces_[piece_].count)) passed_ += BlocksOf(pieces_[piece_++].count);
    const Piece<Plain>& piece = pieces_[piece_];
    const int64_t first = (block - passed_) * kNormBlock, end = first + kNormBlock;
    return {piece.first + first, piece.first + (end < piece.count ? end : piece.count)};
  }

 private:
  const Pieces<Plain>& pieces_;
  int64_t passed_ = 0;  // blocks of the pieces before this one
  int piece_ = 0;
};

// Squares over a block.
template <class T>
ZS_DEVICE double SquaresOfBlock(const In<T>& x, bool aligned, Stretch block) {
  const int64_t first = block.first, count = block.end - first;
  double lanes[8] = {};
  if (aligned && count >= kNormBlock) {
    for (int64_t i = 0; i < kNormBlock; i += 8) {
      const auto low = Load<4>(x, first + i), high = Load<4>(x, first + i + 4);
      for (int j = 0; j < 4; ++j) {
        lanes[j] = SquareAdd(low.v[j], lanes[j]);
        lanes[j + 4] = SquareAdd(high.v[j], lanes[j + 4]);
      }
    }
    return AddEight(lanes);
  }
  for (int64_t i = 0; i < kNormBlock; i += 8) {
    for (int64_t j = 0; j < 8; ++j) {
      if (i + j < count) lanes[j] = SquareAdd(Load<1>(x, first + i + j).v[0], lanes[j]);
    }
  }
  return AddEight(lanes);
}

// |x|^p over the block. Lanes are taken in the order in which they are added, one at a time: pow leaves few registers.
template <class T>
ZS_DEVICE double PowersOfBlock(const In<T>& x, double p, Stretch block) {
  const int64_t first = block.first, count = block.end - first;
  double pair = 0, four = 0, eight = 0;
  ZS_UNROLL_BY(1)
  for (int64_t turn = 0; turn < 8; ++turn) {
    double sum = 0;
    ZS_UNROLL_BY(1)
    for (int64_t i = (turn & 1) * 4 + (turn & 2) + turn / 4; i < count; i += 8)
      sum += PowerOf(Load<1>(x, first + i).v[0], p);
    if (turn % 2 == 0) {
      pair = sum;
    } else if (turn % 4 == 1) {
      four = pair + sum;
    } else {
      four += pair + sum;
      eight = turn == 3 ? four : eight + four;
    }
  }
  return eight;
}

template <class T>
ZS_DEVICE void SquaresKernel(Block& b, bool aligned, const Pieces<Plain>& pieces, In<T> x, InOut<int64_t> words) {
  AddExactly(b, AllBlocksOf(pieces), words, [&] {
    return [&, blocks = BlockOfPieces(pieces)](int64_t i) mutable { return SquaresOfBlock(x, aligned, blocks(i)); };
  });
  NormalizeAtEnd(b, words);
}

template <class T>
ZS_DEVICE void PowersKernel(Block& b, const Pieces<Plain>& pieces, double p, In<T> x, InOut<int64_t> words) {
  const int64_t count = AllBlocksOf(pieces);
  b.ForEachThread([&](unsigned t) {
    BlockOfPieces blocks(pieces);
    for (int64_t i = int64_t{b.index()} * b.threads() + t; i < count; i += int64_t{b.blocks()} * b.threads()) {
      const exact_sum::Digits digits = exact_sum::Split(PowersOfBlock(x, p, blocks(i)));
      for (int j = 0; j < 3; ++j) {
        if (digits.parts[j] != 0) AtomicAdd(words[static_cast<size_t>(digits.first + j)], digits.parts[j]);
      }
    }
  });
  NormalizeAtEnd(b, words);
}

// The largest magnitude as bits of T without the sign; converted once, so that NaNs stay above all.
template <class T>
ZS_DEVICE void MagnitudeKernel(Block& b, bool aligned, const Pieces<int>& pieces, In<T> x, InOut<uint32_t> largest) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>;
  constexpr Bits kMask = static_cast<Bits>(~(Bits{1} << (8 * sizeof(T) - 1)));
  ForEachPiece(b, pieces, [&](int p, int64_t chunk) {
    PerThread<uint32_t> most;
    b.ForEachThread([&](unsigned t) {
      uint32_t own = 0;
      ForLanesOfPiece(b, t, pieces[p], chunk, aligned, [&](auto lanes, int64_t i) {
        const auto stored = LoadAsIs<lanes()>(x, i);
        for (const T& element : stored.v) {
          const uint32_t bits = std::bit_cast<Bits>(element) & kMask;
          own = bits > own ? bits : own;
        }
      });
      most[t] = own;
    });
    const uint32_t bits = b.Fold(most, [](uint32_t x1, uint32_t x2) { return x1 > x2 ? x1 : x2; });
    b.ForEachThread([&](unsigned t) {
      if (t != 0) return;
      const float value = Widen(std::bit_cast<T>(static_cast<Bits>(bits)));
      AtomicMax(largest[static_cast<size_t>(pieces[p].of)], std::bit_cast<uint32_t>(value) & 0x7fffffffu);
    });
  });
}

}  // namespace

cudaError_t AddPowers(cudaStream_t stream, const Array& x, const Pieces<Plain>& pieces, double p, const Array& sum) {
  if (x.empty()) return cudaSuccess;
  const Grid grid = GridFor(AllBlocksOf(pieces));
  const bool aligned = Aligned({x}) && Aligned(pieces);
  const InOut<int64_t> words = Updates<int64_t>(sum);
  cudaError_t error = cudaSuccess;
  VisitActivation(x.dtype(), [&]<class T>(TypeTag<T>) {
    error = p == 2 ? LaunchBlocks<SquaresKernel<T>>(stream, grid, aligned, pieces, Reads<T>(x), words)
                   : LaunchBlocks<PowersKernel<T>>(stream, grid, pieces, p, Reads<T>(x), words);
  });
  return error;
}

cudaError_t MaxMagnitude(cudaStream_t stream, const Array& x, const Pieces<int>& pieces, const Array& largest) {
  if (x.empty()) return cudaSuccess;
  const bool aligned = Aligned({x}) && Aligned(pieces);
  cudaError_t error = cudaSuccess;
  VisitActivation(x.dtype(), [&]<class T>(TypeTag<T>) {
    error =
        LaunchBlocks<MagnitudeKernel<T>>(stream, GridFor(pieces), aligned, pieces, Reads<T>(x), Updates<uint32_t>(largest));
  });
  return error;
}

}  // namespace zeroshard::device::cuda

#include "zeroshard/device/cuda/norm_kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "zeroshard/device/convert.h"
#include "zeroshard/device/cuda/atomics.h"
#include "zeroshard/device/cuda/exact_words.h"
#include "zeroshard/device/cuda/fours.h"
#include "zeroshard/device/cuda/lanes.h"
#include "zeroshard/device/cuda/launch.h"
#include "zeroshard/device/dtype_visitor.h"

namespace zeroshard::device::cuda {
namespace {

// Blocks of 64 elements, one thread each, up to which one block of threads does all, and normalises too.
constexpr int64_t kBlocksOfOne = 4096;

ZS_DEVICE double PowerOf(double x, double p) {
  const double magnitude = std::fabs(x);
  return p == 1 ? magnitude : std::pow(magnitude, p);
}

// Squares over the block of 64 from `first` on.
template <class T>
ZS_DEVICE double SquaresOfBlock(const In<T>& x, bool aligned, int64_t first) {
  const int64_t count = static_cast<int64_t>(x.n) - first;
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
ZS_DEVICE double PowersOfBlock(const In<T>& x, double p, int64_t first) {
  const int64_t left = static_cast<int64_t>(x.n) - first, count = left < kNormBlock ? left : kNormBlock;
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
ZS_DEVICE void SquaresKernel(Block& b, bool aligned, In<T> x, InOut<int64_t> words) {
  AddExactly(b, BlocksOf(static_cast<int64_t>(x.n)), words,
             [&](int64_t block) { return SquaresOfBlock(x, aligned, block * kNormBlock); });
  if (b.blocks() > 1) return;
  b.ForEachThread([&](unsigned t) {
    if (t == 0) exact_sum::Normalize(&words[0]);
  });
}

template <class T>
ZS_DEVICE void PowersKernel(Thread t, double p, In<T> x, InOut<int64_t> words) {
  const int64_t blocks = BlocksOf(static_cast<int64_t>(x.n));
  for (auto i = static_cast<int64_t>(t.Global()); i < blocks; i += static_cast<int64_t>(t.Stride())) {
    const exact_sum::Digits digits = exact_sum::Split(PowersOfBlock(x, p, i * kNormBlock));
    for (int j = 0; j < 3; ++j) {
      if (digits.parts[j] != 0) AtomicAdd(words[static_cast<size_t>(digits.first + j)], digits.parts[j]);
    }
  }
}

ZS_DEVICE void NormalizeKernel(Thread, InOut<int64_t> words) { exact_sum::Normalize(&words[0]); }

// The largest magnitude as bits of T without the sign; converted once, so that NaNs stay above all.
template <class T>
ZS_DEVICE void MagnitudeKernel(Block& b, bool aligned, In<T> x, InOut<uint32_t> largest) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>;
  constexpr Bits kMask = static_cast<Bits>(~(Bits{1} << (8 * sizeof(T) - 1)));
  PerThread<uint32_t> most;
  b.ForEachThread([&](unsigned t) {
    uint32_t own = 0;
    const Thread thread{b.index(), t, b.blocks(), b.threads()};
    ForLanes(thread, static_cast<int64_t>(x.n), aligned, [&](auto lanes, int64_t i) {
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
    AtomicMax(largest[0], std::bit_cast<uint32_t>(value) & 0x7fffffffu);
  });
}

}  // namespace

cudaError_t AddPowers(cudaStream_t stream, const Array& x, double p, const Array& sum) {
  if (x.empty()) return cudaSuccess;
  const Grid grid = ExactGrid(x.elements(), kBlocksOfOne);
  const InOut<int64_t> words = Updates<int64_t>(sum);
  cudaError_t error = cudaSuccess;
  VisitActivation(x.dtype(), [&]<class T>(TypeTag<T>) {
    error = p == 2 ? LaunchBlocks<SquaresKernel<T>>(stream, grid, Aligned({x}), Reads<T>(x), words)
                   : Launch<PowersKernel<T>>(stream, grid, p, Reads<T>(x), words);
  });
  if (error != cudaSuccess || (p == 2 && grid.blocks == 1)) return error;
  return Launch<NormalizeKernel>(stream, Grid{1, 1}, words);
}

cudaError_t MaxMagnitude(cudaStream_t stream, const Array& x, const Array& largest) {
  if (x.empty()) return cudaSuccess;
  cudaError_t error = cudaSuccess;
  VisitActivation(x.dtype(), [&]<class T>(TypeTag<T>) {
    error = LaunchBlocks<MagnitudeKernel<T>>(stream, GridForFours(x.elements()), Aligned({x}), Reads<T>(x),
                                             Updates<uint32_t>(largest));
  });
  return error;
}

}  // namespace zeroshard::device::cuda

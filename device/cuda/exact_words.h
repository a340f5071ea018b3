// Adding fp64 values to the words of an exact sum (device/exact_sum.h) from all threads of a grid.
//
// A thread keeps the three digits that it last added to, and passes them on where the next value's differ; the threads of a block are
// added up word by word, and each word that is not zero goes to memory in one atomic addition of integers. So the sum depends on
// no order.
//
// Example: the squares of x.
//   AddExactly(b, BlocksOf(n), words, [&] { return [&](int64_t block) { return SquaresOf(x, 64 * block); }; });
//   NormalizeAtEnd(b, words);
#pragma once

#include <cstdint>

#include "zeroshard/device/cuda/atomics.h"
#include "zeroshard/device/cuda/launch.h"
#include "zeroshard/device/exact_sum.h"
#include "zeroshard/device/host_device.h"

namespace zeroshard::device::cuda {

// Elements whose squares are added up in fp64, as everywhere (device/cpu/block_sums.h).
inline constexpr int64_t kNormBlock = 64;
ZS_HOST_DEVICE constexpr int64_t BlocksOf(int64_t n) { return (n + kNormBlock - 1) / kNormBlock; }

// x * x + sum in fp64, where the square is exact.
ZS_DEVICE double SquareAdd(float x, double sum) {
  const double wide = x;
  return fma(wide, wide, sum);
}

// Eight lanes in the order of device/cpu/block_sums.h.
ZS_DEVICE double AddEight(const double (&lanes)[8]) {
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

inline constexpr unsigned kExactThreads = 256;

// words += value(i) for i in [0, count), spread over the grid. Blocks of at most kExactThreads. Each thread's `value` is what begin()
// gives it, and is called for ascending i.
template <class Begin>
ZS_DEVICE void AddExactly(Block& b, int64_t count, const InOut<int64_t>& words, const Begin& begin) {
  ZS_SHARED(exact_sum::Digits, of_threads, kExactThreads);
  b.ForEachThread([&](unsigned t) {
    exact_sum::Digits held = {0, {0, 0, 0}};
    auto value = begin();
    for (int64_t i = int64_t{b.index()} * b.threads() + t; i < count; i += int64_t{b.blocks()} * b.threads()) {
      const exact_sum::Digits next = exact_sum::Split(value(i));
      if (next.first != held.first) {
        for (int j = 0; j < 3; ++j) {
          if (held.parts[j] != 0) AtomicAdd(words[static_cast<size_t>(held.first + j)], held.parts[j]);
          held.parts[j] = 0;
        }
        held.first = next.first;
      }
      for (int j = 0; j < 3; ++j) held.parts[j] += next.parts[j];
    }
    of_threads[t] = held;
  });
  // The threads that had anything to add; of small parameters, of which there are many, few.
  const int64_t left = count - int64_t{b.index()} * b.threads();
  const unsigned busy = left < b.threads() ? static_cast<unsigned>(left < 0 ? 0 : left) : b.threads();
  b.ForEachThread([&](unsigned t) {
    for (auto word = static_cast<int>(t); word < kExactSumWords; word += static_cast<int>(b.threads())) {
      int64_t sum = 0;
      for (unsigned of = 0; of < busy; ++of) {
        const int digit = word - of_threads[of].first;
        if (digit >= 0 && digit < 3) sum += of_threads[of].parts[digit];
      }
      if (sum != 0) AtomicAdd(words[static_cast<size_t>(word)], sum);
    }
  });
}

// The kernel's last phase, after all additions to `words`: whichever block comes to it last normalises them. What they then are depends
// on no order. Blocks are counted in the word of what is not finite, above all that it can count, and taken off again: a counter of its
// own would be memory that somebody has to zero. Up to 2^11 - 1 blocks.
ZS_DEVICE void NormalizeAtEnd(Block& b, const InOut<int64_t>& words) {
  constexpr int64_t kOneBlock = int64_t{1} << 52;
  b.ForEachThread([&](unsigned t) {
    if (t != 0) return;
    int64_t& counter = words[kExactSumDigits];
    FenceBlocks();
    const int64_t before = AtomicAdd(counter, kOneBlock);
    if (before / kOneBlock + 1 < b.blocks()) return;
    FenceBlocks();
    counter -= b.blocks() * kOneBlock;
    exact_sum::Normalize(&words[0]);
  });
}

}  // namespace zeroshard::device::cuda

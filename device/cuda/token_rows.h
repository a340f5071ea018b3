// Which rows hold which token, found by each block for its class of tokens (token % classes), in the order of the rows: so that the
// gradients of a token's rows are added without atomics, in one order.
//
// Example:
//   const TokenSet all = {.classes = 4, .of_class = 1, .first = 0, .end = words / 4 + 1};
//   const int found = ListRows(b, tokens, all, /*skipped=*/0, listed, counts);
//   if (found <= kListedRows) ChainTokens(b, listed, found);
#pragma once

#include <algorithm>
#include <cstdint>

#include "zeroshard/device/cuda/launch.h"

namespace zeroshard::device::cuda {

inline constexpr unsigned kTokenThreads = 256;
// Rows that a block keeps at a time.
inline constexpr int kListedRows = 2048;

// Classes for so many rows: some tens of rows each, and enough blocks to fill a GPU.
inline unsigned TokenClasses(int64_t rows) { return static_cast<unsigned>(std::clamp<int64_t>(rows / 64, 1, 256)); }

struct TokenRow {
  int64_t row;
  int32_t token;
  int16_t next;    // entry of the next row with that token; -1: none
  int16_t begins;  // whether no entry before has that token
};

// Those of a class whose number in it, token / classes, is in [first, end).
struct TokenSet {
  unsigned classes, of_class;
  unsigned first, end;

  ZS_DEVICE bool Has(int32_t token) const {
    const auto word = static_cast<uint32_t>(token);
    const unsigned number = word / classes;
    return word - number * classes == of_class && number >= first && number < end;
  }
};

// listed[0, found - skipped) = the set's rows in their order, without the first `skipped`; gives how many the set has, of which
// kListedRows are listed. `counts`: 2 kTokenThreads.
template <class Listed, class Counts>
ZS_DEVICE int ListRows(Block& b, const In<int32_t>& tokens, const TokenSet& set, int skipped, Listed& listed,
                       Counts& counts) {
  constexpr int64_t kRowsOfThread = 8;
  const auto rows = static_cast<int64_t>(tokens.n);
  const auto is_of_set = [&](int64_t row) { return set.Has(tokens[static_cast<size_t>(row)]); };
  int found = 0;
  for (int64_t first = 0; first < rows; first += kTokenThreads * kRowsOfThread) {
    const auto begin = [&](unsigned t) { return first + t * kRowsOfThread; };
    const auto end = [&](unsigned t) { return begin(t) + kRowsOfThread < rows ? begin(t) + kRowsOfThread : rows; };
    b.ForEachThread([&](unsigned t) {
      int own = 0;
      for (int64_t row = begin(t); row < end(t); ++row) own += is_of_set(row) ? 1 : 0;
      counts[t] = own;
    });
    // Sums over the threads up to each, by doubling distances, from one half of `counts` into the other and back.
    unsigned from = 0;
    for (unsigned distance = 1; distance < kTokenThreads; distance *= 2, from = kTokenThreads - from) {
      b.ForEachThread([&](unsigned t) {
        const int before = t >= distance ? counts[from + t - distance] : 0;
        counts[kTokenThreads - from + t] = counts[from + t] + before;
      });
    }
    b.ForEachThread([&](unsigned t) {
      int at = found - skipped + (t == 0 ? 0 : counts[from + t - 1]);
      for (int64_t row = begin(t); row < end(t); ++row) {
        if (!is_of_set(row)) continue;
        if (at >= 0 && at < kListedRows) listed[at] = {row, tokens[static_cast<size_t>(row)], -1, 1};
        ++at;
      }
    });
    found += counts[from + kTokenThreads - 1];
    b.ForEachThread([](unsigned) {});
  }
  return found;
}

// Links each entry to the next with its token, and marks those that none links to.
template <class Listed>
ZS_DEVICE void ChainTokens(Block& b, Listed& listed, int found) {
  b.ForEachThread([&](unsigned t) {
    for (int entry = static_cast<int>(t); entry < found; entry += kTokenThreads) {
      int next = entry + 1;
      while (next < found && listed[next].token != listed[entry].token) ++next;
      if (next < found) listed[entry].next = static_cast<int16_t>(next);
    }
  });
  b.ForEachThread([&](unsigned t) {
    for (int entry = static_cast<int>(t); entry < found; entry += kTokenThreads) {
      if (listed[entry].next >= 0) listed[listed[entry].next].begins = 0;
    }
  });
}

}  // namespace zeroshard::device::cuda

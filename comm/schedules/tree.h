// The one tree over ranks, as schedules with many ranks climb it.
//
// A node of level l is 2^l ranks in a row, the last perhaps cut off: level 0 are the ranks, and a node's children are the two
// halves that it is made of, or one alone that passes up unchanged. On the way up a node's partial sum is spread over its ranks:
// OwnerOf says which of them holds part p. At each level half of the parts change hands, between ranks 2^l apart (halving with
// distance doubling); at the top rank p holds part p.
//
// Example: ranks 0 to 4, part 3.    level 0: each its own    level 1: 1, 3, 4    level 2: 3, 4    level 3: 3
#pragma once

namespace zeroshard::comm {

// Levels above the ranks: the least l with 2^l >= world_size.
inline int TreeLevels(int world_size) {
  int levels = 0;
  while ((1 << levels) < world_size) ++levels;
  return levels;
}

// The rank that holds part `part` of the partial sum of the node of `level` that begins at rank `first` (a multiple of 2^level,
// below world_size).
inline int OwnerOf(int first, int level, int part, int world_size) {
  if (first + (1 << level) <= world_size)
    return first + (part & ((1 << level) - 1));  // Not cut off: each rank the same share.
  while (level > 0) {
    --level;
    const int upper = first + (1 << level);
    if (((part >> level) & 1) != 0 && upper < world_size) first = upper;
  }
  return first;
}

}  // namespace zeroshard::comm

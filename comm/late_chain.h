// Who is to blame when a peer is late: the end of the chain of those that wait for each other.
//
// Example: rank 0 waits for rank 1, which waits for rank 2, whose process is stopped.
//   WhyLate(0, 1, 3, ask)      // "rank 2 does not answer: its process is stopped, or cut off; rank 1 waits for it"
#pragma once

#include <string>

#include "absl/functional/function_ref.h"

namespace zeroshard::comm {

// What a rank says of itself when it is asked.
struct Testimony {
  bool answers = false;
  int waits_for = -1;  // a rank; -1: none
  int number = -1;     // what messages call it (Transport::number); -1: its rank
  std::string words;   // "rank 1 answers, and was last in all-reduce #7 (...)"; of one that does not answer: why
};

// Asks `peer`, for which `rank` waits, then the rank that it waits for in turn, until one waits for none. Those that wait for each other
// in a ring may be held up by one for which none of them waits (who stands still with a place in a queue that they share): then the others
// are asked too, and one that does not answer is named first.
std::string WhyLate(int rank, int peer, int world_size, absl::FunctionRef<Testimony(int)> ask);

}  // namespace zeroshard::comm

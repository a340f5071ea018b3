// Which cores this process may run on: where it, or the job, was bound to some, or its container has a share of them, that is fewer than
// the machine has.
//
// Example:
//   const int threads = std::max(1, UsableCores() / ranks_here);
#pragma once

#include <array>
#include <cstdint>

namespace zeroshard::comm {

// Bit i of word i / 64: core i.
using CoreSet = std::array<uint64_t, 64>;

// Those that the system's scheduler may choose from for the calling thread.
CoreSet OwnCores();
int Count(const CoreSet& cores);

// Of OwnCores(), no more than the control group's share of time is worth, rounded up; at least 1.
int UsableCores();

// How many of `usable` cores are one rank's, of so many on this host which has `all`: its own, where a launcher that `binds` ranks gave
// each some of its own, else its part of those that they share; at least 1.
int CoresOfARank(int usable, int all, int ranks_here, bool binds);

}  // namespace zeroshard::comm

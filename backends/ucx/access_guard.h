// AccessGuard: who reads or writes whose memory right now, in memory that all ranks share: so that a rank which gives up can wait
// until nobody touches its memory any more, and nobody begins to.
//
// Each rank has a page: a flag that it closed its memory, and for each peer a line on which that peer says that it is at it. Peer
// and owner each write one flag and then look at the other's, in one order for all (sequentially consistent): never do both miss.
//
// Example:
//   if (guard.Begin(peer)) {
//     ... read or write a piece of the peer's memory ...
//     guard.End(peer);
//   }
#pragma once

#include <atomic>
#include <cstdint>

#include "zeroshard/backends/ucx/mapped_region.h"

namespace zeroshard::backends {

class AccessGuard {
 public:
  static int64_t PageBytes(int world_size) { return static_cast<int64_t>(sizeof(Line)) * (world_size + 1); }

  // `pages` is mapped, begins with PageBytes(world_size) zeros, and outlives this.
  AccessGuard(const MappedRegion& pages, int rank) : pages_(pages), rank_(rank) {}

  // This rank touches memory of `peer` until End. False: the peer has closed it.
  bool Begin(int peer) {
    Line* const theirs = PageOf(peer);
    theirs[rank_ + 1].flag.store(1, std::memory_order_seq_cst);
    if (theirs[0].flag.load(std::memory_order_seq_cst) == 0) return true;
    End(peer);
    return false;
  }
  void End(int peer) { PageOf(peer)[rank_ + 1].flag.store(0, std::memory_order_release); }

  // No peer begins to touch this rank's memory any more.
  void Close() { Mine()[0].flag.store(1, std::memory_order_seq_cst); }
  // Whether `peer` does.
  bool Touches(int peer) { return Mine()[peer + 1].flag.load(std::memory_order_seq_cst) != 0; }

 private:
  struct alignas(64) Line {
    std::atomic<uint32_t> flag;
  };
  static_assert(std::atomic<uint32_t>::is_always_lock_free);

  Line* Mine() { return static_cast<Line*>(pages_.data()); }
  Line* PageOf(int peer) { return static_cast<Line*>(pages_.address(peer)); }

  const MappedRegion& pages_;
  const int rank_;
};

}  // namespace zeroshard::backends

// RegionTable: the mapped regions of one rank, by number and by address. Thread-safe; allocates only in Add.
//
// A key is a region's number and an offset in it; all ranks number alike, so that one rank's key means the same on every other.
//
// Example:
//   table->Add(3, *region);
//   uint64_t key = table->KeyOf(data, bytes);                  // sent to a peer, which asks:
//   void* here = table->AddressOf(rank, key, bytes);     // rank's memory, or null
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "zeroshard/backends/ucx/mapped_region.h"

namespace zeroshard::backends {

class RegionTable {
 public:
  // `number` > 0, and was never used before. The region stays until Remove.
  void Add(uint64_t number, const MappedRegion& region);
  void Remove(uint64_t number);

  // 0 where [data, data + bytes) is in no region.
  uint64_t KeyOf(const void* data, int64_t bytes) const;
  // Null where `key`, which a peer sent, means no `bytes` of it.
  void* AddressOf(int peer, uint64_t key, int64_t bytes) const;

 private:
  struct Entry {
    uint64_t number;
    const MappedRegion* region;
  };

  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace zeroshard::backends

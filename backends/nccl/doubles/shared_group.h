// The shared memory of one communicator of the double: a channel from each rank to each other, and a place to meet.
//
// It is anonymous: others find it through the process that made it, and nothing is left of it when the last rank has ended, whatever
// ended it.
//
// Example:
//   const SharedPlace place = SharedGroup::Make();  // one rank, which tells the others
//   std::shared_ptr<SharedGroup> group = SharedGroup::Open(place, rank, world_size);
//   std::vector<int64_t> sizes = group->Exchange(rank, size, stop);
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "zeroshard/backends/nccl/doubles/message.h"

namespace zeroshard::backends::doubles {

// Where memory is to be found until all ranks have opened it.
struct SharedPlace {
  int32_t process = 0;
  int32_t file = -1;  // of that process
};

class SharedGroup {
 public:
  static constexpr int kMostRanks = 8;

  static SharedPlace Make();
  // Waits for all ranks. Null where the process that made it has ended.
  static std::shared_ptr<SharedGroup> Open(const SharedPlace& place, int rank, int world_size);
  ~SharedGroup();
  SharedGroup(const SharedGroup&) = delete;
  SharedGroup& operator=(const SharedGroup&) = delete;

  int world_size() const { return world_size_; }
  Channel& From(int from, int to);
  // Every rank's value, once all ranks have called. Empty where `stop` is set meanwhile.
  std::vector<int64_t> Exchange(int rank, int64_t value, const std::atomic<bool>& stop);

 private:
  struct Memory;
  SharedGroup(int world_size, Memory* memory) : world_size_(world_size), memory_(memory) {}

  const int world_size_;
  Memory* const memory_;
};

}  // namespace zeroshard::backends::doubles

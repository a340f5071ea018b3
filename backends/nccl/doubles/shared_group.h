// The shared memory of one communicator of the double: a channel from each rank to each other, and a place to meet.
//
// Example:
//   std::shared_ptr<SharedGroup> group = SharedGroup::Open("/zeroshard_nccl_17_1", rank, world_size);
//   std::vector<int64_t> sizes = group->Exchange(rank, size);
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "zeroshard/backends/nccl/doubles/message.h"

namespace zeroshard::backends::doubles {

class SharedGroup {
 public:
  static constexpr int kMostRanks = 8;

  // Waits for all ranks; after that the name is gone.
  static std::shared_ptr<SharedGroup> Open(const std::string& name, int rank, int world_size);
  ~SharedGroup();
  SharedGroup(const SharedGroup&) = delete;
  SharedGroup& operator=(const SharedGroup&) = delete;

  const std::string& name() const { return name_; }
  int world_size() const { return world_size_; }
  Channel& From(int from, int to);
  // Every rank's value, once all ranks have called. Empty where `stop` is set meanwhile.
  std::vector<int64_t> Exchange(int rank, int64_t value, const std::atomic<bool>& stop);

 private:
  struct Memory;
  SharedGroup(const std::string& name, int world_size, Memory* memory)
      : name_(name), world_size_(world_size), memory_(memory) {}

  const std::string name_;
  const int world_size_;
  Memory* const memory_;
};

}  // namespace zeroshard::backends::doubles

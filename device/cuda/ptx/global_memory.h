// Device memory as a kernel sees it: the stretches that were allocated, and who touched them.
//
// Example:
//   GlobalMemory memory(resolve);
//   memory.Add(address, bytes);
//   GlobalMemory::Found found = memory.Find(address + 8, 4);   // found.host == nullptr: not allocated
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "zeroshard/device/cuda/ptx/race_log.h"

namespace zeroshard::device::cuda::ptx {

class GlobalMemory {
 public:
  // Where the host finds the bytes of an allocation; asked once, when it is first touched.
  using Resolve = std::function<std::byte*(uint64_t address, int64_t bytes)>;
  explicit GlobalMemory(Resolve resolve) : resolve_(std::move(resolve)) {}

  void Add(uint64_t address, int64_t bytes) { allocations_[address] = {address, bytes, nullptr, nullptr}; }
  // What the host holds, and nobody writes.
  void AddConstant(uint64_t address, const std::vector<std::byte>& bytes);

  struct Found {
    std::byte* host = nullptr;
    RaceLog* log = nullptr;  // nullptr: nobody writes it
    size_t offset = 0;       // in the log
  };
  Found Find(uint64_t address, int64_t bytes);

 private:
  struct Allocation {
    uint64_t address = 0;
    int64_t bytes = 0;
    std::byte* host = nullptr;
    std::unique_ptr<RaceLog> log;
  };

  const Resolve resolve_;
  std::map<uint64_t, Allocation> allocations_;
  Allocation* last_ = nullptr;  // the one found last
};

}  // namespace zeroshard::device::cuda::ptx

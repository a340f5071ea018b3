// A device's memory as its kernels see it: the stretches that were allocated, and who touched them.
//
// Example:
//   memory.BeginLaunch({{address, bytes}}, resolve);
//   const GlobalMemory::Found found = memory.Find(address + 8, 4);   // found.host == nullptr: not allocated
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "zeroshard/device/cuda/ptx/race_log.h"

namespace zeroshard::device::cuda::ptx {

class GlobalMemory {
 public:
  // Where the host finds the bytes of an allocation; asked when a launch first touches it.
  using Resolve = std::function<std::byte*(uint64_t address, int64_t bytes)>;

  // What there is for the next launch: addresses and bytes, and what nobody writes, at kModuleAddress.
  void BeginLaunch(const std::vector<std::pair<uint64_t, int64_t>>& allocations, const std::vector<std::byte>& constants,
                   Resolve resolve);
  // A new epoch; each is later than all before, of any launch.
  uint32_t NextEpoch() { return ++epoch_; }

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
    std::unique_ptr<RaceLog> log = nullptr;  // kept from launch to launch: epochs tell them apart
  };

  Resolve resolve_;
  std::map<uint64_t, Allocation> allocations_;
  Allocation* last_ = nullptr;  // the one found last
  uint32_t epoch_ = 0;
};

}  // namespace zeroshard::device::cuda::ptx

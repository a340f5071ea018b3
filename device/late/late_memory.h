// Memory whose device addresses host code cannot touch: an address is reserved, unreadable, and never used again; what
// operations see lies elsewhere.
//
// Not thread-safe: the engine's lock covers it.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(uint64_t address, memory.Allocate(64, "moments"));
//   memory.Log("fill", Access{address, 64, AccessMode::kWrite}, stream_id, sequence, clock);
//   std::memset(memory.Resolve(address, 64), 0, 64);
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "zeroshard/device/cpu/host_memory.h"
#include "zeroshard/device/late/access_log.h"
#include "zeroshard/device/late/clock.h"
#include "zeroshard/device/stream.h"

namespace zeroshard::device {

class LateMemory final : public AddressMap {
 public:
  LateMemory() = default;
  ~LateMemory() override;
  LateMemory(const LateMemory&) = delete;
  LateMemory& operator=(const LateMemory&) = delete;

  // The device address of new zeroed memory. Errors: as HostMemory::Map.
  absl::StatusOr<uint64_t> Allocate(int64_t bytes, std::string_view what);
  void Free(uint64_t address);

  // Checks that the range lies in one live allocation, and that it races with no earlier access; ends the process otherwise.
  void Log(const char* name, const Access& access, int stream, uint64_t sequence, const Clock& known);

  // Where an operation finds the bytes. Ends the process if the allocation is gone.
  void* Resolve(uint64_t address, int64_t bytes) const override;

  // The name that the allocation at `address` was given.
  std::string NameAt(uint64_t address) const;

 private:
  struct Allocation {
    std::string what;
    int64_t bytes = 0;
    int64_t reserved_bytes = 0;
    bool live = true;
    HostMemory memory;
    AccessLog log;
  };

  // The allocation that the whole range lies in.
  std::pair<const uint64_t, Allocation>& Find(const char* name, uint64_t address, int64_t bytes);

  std::map<uint64_t, Allocation> allocations_;
};

}  // namespace zeroshard::device

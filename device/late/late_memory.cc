#include "zeroshard/device/late/late_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "zeroshard/device/late/end_test.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::device {
namespace {

constexpr int64_t kPageBytes = 4096;

}  // namespace

LateMemory::~LateMemory() {
  for (const auto& [address, allocation] : allocations_) {
    munmap(reinterpret_cast<void*>(address), static_cast<size_t>(allocation.reserved_bytes));
  }
}

absl::StatusOr<uint64_t> LateMemory::Allocate(int64_t bytes, std::string_view what) {
  Allocation allocation;
  ZS_ASSIGN_OR_RETURN(allocation.memory, HostMemory::Map(bytes));
  allocation.what = std::string(what);
  allocation.bytes = bytes;
  // A page more than asked, so that no two allocations touch.
  allocation.reserved_bytes = (bytes + 2 * kPageBytes - 1) / kPageBytes * kPageBytes;
  void* reserved = mmap(nullptr, static_cast<size_t>(allocation.reserved_bytes), PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot reserve ", bytes, " addresses: ", std::strerror(errno)));
  }
  const uint64_t address = reinterpret_cast<uint64_t>(reserved);
  allocations_.emplace(address, std::move(allocation));
  return address;
}

void LateMemory::Free(uint64_t address) {
  Allocation& allocation = allocations_.at(address);
  allocation.live = false;
  allocation.memory = HostMemory();
}

std::pair<const uint64_t, LateMemory::Allocation>& LateMemory::Find(const char* name, uint64_t address, int64_t bytes) {
  auto next = allocations_.upper_bound(address);
  if (next == allocations_.begin()) {
    EndTest(absl::StrFormat("\"%s\" uses address %#x, which is no device memory of this rank", name, address));
  }
  auto& found = *std::prev(next);
  const int64_t first = static_cast<int64_t>(address - found.first);
  const Allocation& allocation = found.second;
  if (first >= allocation.reserved_bytes) {
    EndTest(absl::StrFormat("\"%s\" uses address %#x, which is no device memory of this rank", name, address));
  }
  if (!allocation.live) EndTest(absl::StrFormat("\"%s\" uses memory of \"%s\", which was dropped", name, allocation.what));
  if (first + bytes > allocation.bytes) {
    EndTest(absl::StrFormat("\"%s\" uses bytes [%d, %d) of \"%s\", which has %d", name, first, first + bytes,
                            allocation.what, allocation.bytes));
  }
  return found;
}

void LateMemory::Log(const char* name, const Access& access, int stream, uint64_t sequence, const Clock& known) {
  if (access.bytes == 0) return;
  auto& [base, allocation] = Find(name, access.address, access.bytes);
  const int64_t begin = static_cast<int64_t>(access.address - base);
  const bool writes = access.mode != AccessMode::kRead;
  allocation.log.Add({begin, begin + access.bytes, stream, sequence, writes, name}, known, allocation.what);
}

void* LateMemory::Resolve(uint64_t address, int64_t bytes) const {
  auto& [base, allocation] = const_cast<LateMemory*>(this)->Find("a queued operation", address, bytes);
  return static_cast<char*>(allocation.memory.data()) + (address - base);
}

std::string LateMemory::NameAt(uint64_t address) const { return allocations_.at(address).what; }

}  // namespace zeroshard::device

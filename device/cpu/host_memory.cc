#include "zeroshard/device/cpu/host_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace zeroshard::device {
namespace {

constexpr size_t kPageBytes = size_t{4} << 10;
constexpr size_t kHugePageBytes = size_t{2} << 20;
// From here on the kernel is asked before the pages are touched: a touch that finds no memory kills the process.
constexpr int64_t kAskFromBytes = int64_t{64} << 20;

size_t RoundUp(size_t value, size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

// The number in a file of one line, or -1: no such file, or no number in it ("max").
int64_t NumberIn(const char* path) {
  std::FILE* file = std::fopen(path, "r");
  if (file == nullptr) return -1;
  long long number = -1;
  if (std::fscanf(file, "%lld", &number) != 1) number = -1;
  std::fclose(file);
  return number;
}

// A line of /proc/meminfo, "MemAvailable:", in bytes, or -1 if it is not there.
int64_t MachinesBytes(std::string_view name) {
  std::FILE* file = std::fopen("/proc/meminfo", "r");
  if (file == nullptr) return -1;
  char line[128];
  long long kilobytes = -1;
  while (std::fgets(line, sizeof(line), file) != nullptr) {
    if (name == std::string_view(line).substr(0, name.size()) && std::sscanf(line + name.size(), "%lld", &kilobytes) == 1)
      break;
  }
  std::fclose(file);
  return kilobytes < 0 ? -1 : static_cast<int64_t>(kilobytes) * 1024;
}

// Makes every page present. The kernel's own way is faster, where it has one (Linux 5.14).
void Touch(char* data, size_t bytes) {
#ifdef MADV_POPULATE_WRITE
  if (madvise(data, bytes, MADV_POPULATE_WRITE) == 0) return;
#endif
  for (size_t i = 0; i < bytes; i += kPageBytes) static_cast<volatile char*>(data)[i] = 0;
}

}  // namespace

int64_t AvailableHostBytes() {
  int64_t least = std::numeric_limits<int64_t>::max();
  // What the kernel believes it can give without swapping; the container's limit, of control groups, version 2 and 1.
  for (const int64_t limit : {MachinesBytes("MemAvailable:"), NumberIn("/sys/fs/cgroup/memory.max"),
                              NumberIn("/sys/fs/cgroup/memory/memory.limit_in_bytes")}) {
    if (limit >= 0) least = std::min(least, limit);
  }
  return least;
}

int64_t FreeSwapBytes() { return std::max<int64_t>(0, MachinesBytes("SwapFree:")); }

absl::StatusOr<HostMemory> HostMemory::Map(int64_t bytes) {
  HostMemory memory;
  if (bytes < 0) return absl::InvalidArgumentError(absl::StrCat("cannot allocate ", bytes, " bytes"));
  if (bytes == 0) return memory;
  if (bytes >= kAskFromBytes) {
    const int64_t available = AvailableHostBytes();
    if (bytes > available) {
      return absl::ResourceExhaustedError(
          absl::StrCat("cannot allocate ", bytes, " bytes of host memory: ", available, " are available"));
    }
  }
  const bool huge = static_cast<size_t>(bytes) >= kHugePageBytes;
  const size_t size = RoundUp(static_cast<size_t>(bytes), huge ? kHugePageBytes : kPageBytes);
  memory.mapped_bytes_ = huge ? size + kHugePageBytes : size;
  void* mapped = mmap(nullptr, memory.mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot allocate ", bytes, " bytes of host memory: ", std::strerror(errno)));
  }
  memory.mapped_ = mapped;
  memory.data_ = mapped;
  if (huge) {
    memory.data_ = reinterpret_cast<void*>(RoundUp(reinterpret_cast<size_t>(mapped), kHugePageBytes));
    madvise(memory.data_, size, MADV_HUGEPAGE);
  }
  Touch(static_cast<char*>(memory.data_), RoundUp(static_cast<size_t>(bytes), kPageBytes));
  return memory;
}

HostMemory::~HostMemory() {
  if (mapped_ != nullptr) munmap(mapped_, mapped_bytes_);
}

}  // namespace zeroshard::device

#include "zeroshard/backends/nccl/doubles/shared_group.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/late/end_test.h"

namespace zeroshard::backends::doubles {
namespace {

void Pause() { usleep(100); }

}  // namespace

struct SharedGroup::Memory {
  std::atomic<int> joined;
  std::atomic<uint64_t> rounds[kMostRanks];
  int64_t values[2][kMostRanks];
  Channel channels[kMostRanks][kMostRanks];
};

SharedPlace SharedGroup::Make() {
  const int file = memfd_create("zeroshard_nccl", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, sizeof(Memory)) != 0) {
    device::EndTest(absl::StrCat("shared memory: ", std::strerror(errno)));
  }
  return {.process = getpid(), .file = file};
}

std::shared_ptr<SharedGroup> SharedGroup::Open(const SharedPlace& place, int rank, int world_size) {
  if (world_size > kMostRanks) device::EndTest(absl::StrCat("the double of NCCL carries ", kMostRanks, " ranks"));
  const std::string path = absl::StrCat("/proc/", place.process, "/fd/", place.file);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0 && errno == ENOENT) return nullptr;
  void* const mapped = file < 0 ? MAP_FAILED : mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED) device::EndTest(absl::StrCat("shared memory ", path, ": ", std::strerror(errno)));
  close(file);
  auto* const memory = static_cast<Memory*>(mapped);  // Zeroes are what all of it begins with.
  memory->joined.fetch_add(1);
  while (memory->joined.load() < world_size) Pause();
  if (rank == 0 && place.process == getpid()) close(place.file);
  return std::shared_ptr<SharedGroup>(new SharedGroup(world_size, memory));
}

SharedGroup::~SharedGroup() { munmap(memory_, sizeof(Memory)); }

Channel& SharedGroup::From(int from, int to) { return memory_->channels[from][to]; }

// A rank that is two rounds ahead knows that all have read the values of the first.
std::vector<int64_t> SharedGroup::Exchange(int rank, int64_t value, const std::atomic<bool>& stop) {
  const uint64_t round = memory_->rounds[rank].load() + 1;
  int64_t* const values = memory_->values[round % 2];
  values[rank] = value;
  memory_->rounds[rank].store(round);
  for (int r = 0; r < world_size_; ++r) {
    while (memory_->rounds[r].load() < round) {
      if (stop) return {};
      Pause();
    }
  }
  return {values, values + world_size_};
}

}  // namespace zeroshard::backends::doubles

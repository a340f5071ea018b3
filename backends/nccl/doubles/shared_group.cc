#include "zeroshard/backends/nccl/doubles/shared_group.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

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

std::shared_ptr<SharedGroup> SharedGroup::Open(const std::string& name, int rank, int world_size) {
  if (world_size > kMostRanks) device::EndTest(absl::StrCat("the double of NCCL carries ", kMostRanks, " ranks"));
  const int file = shm_open(name.c_str(), O_CREAT | O_RDWR, 0600);
  if (file < 0 || ftruncate(file, sizeof(Memory)) != 0) {
    device::EndTest(absl::StrCat("shared memory ", name, ": ", std::strerror(errno)));
  }
  void* const mapped = mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (mapped == MAP_FAILED) device::EndTest(absl::StrCat("shared memory ", name, ": ", std::strerror(errno)));
  auto* const memory = static_cast<Memory*>(mapped);  // Zeroes are what all of it begins with.
  memory->joined.fetch_add(1);
  while (memory->joined.load() < world_size) Pause();
  if (rank == 0) shm_unlink(name.c_str());
  return std::shared_ptr<SharedGroup>(new SharedGroup(name, world_size, memory));
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

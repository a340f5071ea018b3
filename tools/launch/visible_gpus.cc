#include "zeroshard/tools/launch/visible_gpus.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "zeroshard/comm/backend_registry.h"
#include "zeroshard/device/device_registry.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/tools/launch/cuda_library.h"

namespace zeroshard::tools {
namespace {

constexpr char kCuda[] = "cuda";

// All that comes until the other end is closed.
std::string ReadAll(int pipe) {
  std::string text;
  char part[512];
  for (;;) {
    const ssize_t got = read(pipe, part, sizeof part);
    if (got > 0) {
      text.append(part, static_cast<size_t>(got));
    } else if (got == 0 || errno != EINTR) {
      return text;
    }
  }
}

// What the child says: two numbers, or the error's text.
[[noreturn]] void Say(const GpuWish& wish, int pipe) {
  const absl::StatusOr<VisibleGpus> gpus = LookAtGpus(wish);
  const std::string text =
      gpus.ok() ? absl::StrCat(gpus->count, " ", gpus->least_bytes) : std::string(gpus.status().message());
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t put = write(pipe, text.data() + written, text.size() - written);
    if (put <= 0) break;
    written += static_cast<size_t>(put);
  }
  _exit(0);
}

}  // namespace

absl::StatusOr<VisibleGpus> LookAtGpus(const GpuWish& wish) {
  ZS_RETURN_IF_ERROR(OpenCudaLibrary());
  VisibleGpus gpus;
  ZS_ASSIGN_OR_RETURN(gpus.count, device::CountDevices(kCuda));
  const int ranks = wish.ranks == 0 ? gpus.count : wish.ranks;
  for (int rank = wish.first; rank < wish.first + ranks; ++rank) {
    // A rank that somebody else started may have been shown its own GPU alone.
    if (rank >= gpus.count && rank > wish.first) break;
    const int local_rank = wish.share ? rank % gpus.count : rank;
    ZS_ASSIGN_OR_RETURN(const int64_t bytes, device::DeviceMemory(kCuda, {.local_rank = local_rank}));
    gpus.least_bytes = rank == wish.first ? bytes : std::min(gpus.least_bytes, bytes);
  }
  ZS_RETURN_IF_ERROR(comm::CheckSurroundings(wish.backend, {.interface = wish.interface}));
  return gpus;
}

absl::StatusOr<VisibleGpus> LookAtGpusElsewhere(const GpuWish& wish) {
  int ends[2];
  if (pipe(ends) != 0) return absl::ErrnoToStatus(errno, "asking for GPUs");
  const pid_t child = fork();
  if (child == 0) Say(wish, ends[1]);
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    return absl::ErrnoToStatus(errno, "asking for GPUs");
  }
  const std::string said = ReadAll(ends[0]);
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  VisibleGpus gpus;
  const std::vector<std::string> numbers = absl::StrSplit(said, ' ');
  if (numbers.size() == 2 && absl::SimpleAtoi(numbers[0], &gpus.count) && absl::SimpleAtoi(numbers[1], &gpus.least_bytes)) {
    return gpus;
  }
  if (!said.empty()) return absl::FailedPreconditionError(said);
  return absl::FailedPreconditionError(absl::StrCat("looking for GPUs ended the process that looked (wait status ", status,
                                                    "); see nvidia-smi, or leave out --device=cuda"));
}

}  // namespace zeroshard::tools

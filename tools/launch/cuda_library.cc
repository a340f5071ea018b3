#include "zeroshard/tools/launch/cuda_library.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "zeroshard/device/device_registry.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::tools {
namespace {

constexpr char kName[] = "libzeroshard_cuda.so";
constexpr char kVariable[] = "ZEROSHARD_CUDA_LIBRARY";

absl::StatusOr<std::string> Find() {
  if (const char* named = std::getenv(kVariable)) return named;
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / kName;
  if (!error && std::filesystem::exists(path, error)) return path.string();
  return absl::FailedPreconditionError(
      absl::StrCat("no ", kName,
                   " beside the program: it was built on a machine without a CUDA toolkit; build it where one is "
                   "(CUDA_HOME), or leave out --device=cuda and --backend=nccl"));
}

absl::Status Open() {
  ZS_ASSIGN_OR_RETURN(const std::string path, Find());
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "cannot open ", path, ": ", dlerror(), "; install NVIDIA's libraries where the loader finds them (LD_LIBRARY_PATH)"));
}

absl::StatusOr<int> CountGpus() {
  ZS_RETURN_IF_ERROR(OpenCudaLibrary());
  return device::CountDevices("cuda");
}

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

// What the child says: a number, or the error's text.
[[noreturn]] void SayCount(int pipe) {
  const absl::StatusOr<int> gpus = CountGpus();
  const std::string text = gpus.ok() ? absl::StrCat(*gpus) : std::string(gpus.status().message());
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t put = write(pipe, text.data() + written, text.size() - written);
    if (put <= 0) break;
    written += static_cast<size_t>(put);
  }
  _exit(0);
}

}  // namespace

absl::Status OpenCudaLibrary() {
  static const absl::Status& opened = *new absl::Status(Open());
  return opened;
}

absl::StatusOr<int> CountGpusElsewhere() {
  int ends[2];
  if (pipe(ends) != 0) return absl::ErrnoToStatus(errno, "asking for GPUs");
  const pid_t child = fork();
  if (child == 0) SayCount(ends[1]);
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
  int gpus = 0;
  if (absl::SimpleAtoi(said, &gpus)) return gpus;
  if (!said.empty()) return absl::FailedPreconditionError(said);
  return absl::FailedPreconditionError(absl::StrCat("looking for GPUs ended the process that looked (wait status ", status,
                                                    "); see nvidia-smi, or leave out --device=cuda"));
}

}  // namespace zeroshard::tools

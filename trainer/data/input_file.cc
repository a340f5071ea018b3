#include "zeroshard/trainer/data/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"

namespace zeroshard::trainer {
namespace {

// Reads nothing of a file on which open() would wait for somebody (a pipe): O_NONBLOCK.
constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;

}  // namespace

absl::StatusOr<InputFile> InputFile::Open(const std::string& path) {
  const int descriptor = open(path.c_str(), kOpenFlags);
  if (descriptor < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read '", path, "'"));
  struct stat facts = {};
  if (fstat(descriptor, &facts) != 0 || !S_ISREG(facts.st_mode)) {
    close(descriptor);
    return absl::InvalidArgumentError(absl::StrCat("cannot read '", path, "': it is not an ordinary file"));
  }
  return InputFile(path, descriptor, facts.st_size);
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)), size_(other.size_) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  return *this;
}

absl::Status InputFile::Read(int64_t offset, void* to, int64_t bytes) const {
  char* next = static_cast<char*>(to);
  int64_t done = 0;
  while (done < bytes) {
    const ssize_t got = pread(descriptor_, next + done, static_cast<size_t>(bytes - done), offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return absl::DataLossError(absl::StrCat("cannot read '", path_, "' at offset ", offset + done, ": ",
                                              absl::ErrnoToStatus(errno, "read").message()));
    }
    if (got == 0) {
      return absl::DataLossError(absl::StrCat("'", path_, "' ends at offset ", offset + done, ", ", bytes - done,
                                              " bytes too early: was it cut while it was read?"));
    }
    done += got;
  }
  return absl::OkStatus();
}

}  // namespace zeroshard::trainer

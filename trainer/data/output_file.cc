#include "zeroshard/trainer/data/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::trainer {
namespace {

constexpr size_t kPendingBytes = 1 << 20;

absl::Status WriteAll(int descriptor, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write '", path, "'"));
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OutputFile> OutputFile::Create(const std::string& path) {
  const int descriptor = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  if (descriptor < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write '", path, "'"));
  return OutputFile(path, descriptor);
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      pending_(std::move(other.pending_)) {}

absl::Status OutputFile::Flush() {
  ZS_RETURN_IF_ERROR(WriteAll(descriptor_, pending_, path_));
  pending_.clear();
  return absl::OkStatus();
}

absl::Status OutputFile::Append(std::string_view bytes) {
  pending_.append(bytes);
  return pending_.size() < kPendingBytes ? absl::OkStatus() : Flush();
}

absl::Status OutputFile::Overwrite(std::string_view first_bytes) {
  ZS_RETURN_IF_ERROR(Flush());
  if (lseek(descriptor_, 0, SEEK_SET) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write '", path_, "'"));
  ZS_RETURN_IF_ERROR(WriteAll(descriptor_, first_bytes, path_));
  lseek(descriptor_, 0, SEEK_END);
  return absl::OkStatus();
}

absl::Status OutputFile::Close() {
  ZS_RETURN_IF_ERROR(Flush());
  const int descriptor = std::exchange(descriptor_, -1);
  const bool synced = fsync(descriptor) == 0;
  const int error = errno;
  if (close(descriptor) == 0 && synced) return absl::OkStatus();
  return absl::ErrnoToStatus(synced ? errno : error, absl::StrCat("cannot write '", path_, "'"));
}

}  // namespace zeroshard::trainer

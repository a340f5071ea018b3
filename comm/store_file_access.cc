#include "zeroshard/comm/store_file_access.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::comm {
namespace {

// Closes a file descriptor at the end of a scope.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return value_; }
  int release() { return std::exchange(value_, -1); }

 private:
  int value_;
};

absl::Status WriteAll(int descriptor, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return FileError("write", path, written < 0 ? errno : ENOSPC);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

bool SameFile(int descriptor, const std::string& path) {
  struct stat held, named;
  return fstat(descriptor, &held) == 0 && stat(path.c_str(), &named) == 0 && held.st_dev == named.st_dev &&
         held.st_ino == named.st_ino;
}

}  // namespace

absl::Status FileError(std::string_view what, std::string_view path, int error) {
  const std::string message = absl::StrCat(std::string(what), " ", std::string(path), ": ", strerror(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case EACCES:
    case EPERM:
    case EROFS:
    case ELOOP:
    case ENAMETOOLONG:
      return absl::InvalidArgumentError(message);
    case ENOSPC:
    case EDQUOT:
      return absl::ResourceExhaustedError(message);
    default:
      return absl::UnavailableError(message);
  }
}

absl::Status MakePrivateFolder(const std::string& path) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return FileError("make the folder", path, errno);
  struct stat found;
  if (lstat(path.c_str(), &found) != 0) return FileError("look at", path, errno);
  if (!S_ISDIR(found.st_mode)) return FileError("make the folder", path, ENOTDIR);
  if (found.st_uid != geteuid() || (found.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("the folder ", path, " belongs to user ", found.st_uid, ", mode 0",
                                                   absl::Hex((found.st_mode >> 6) & 7), absl::Hex((found.st_mode >> 3) & 7),
                                                   absl::Hex(found.st_mode & 7), ": it must be user ", geteuid(),
                                                   "'s, and writable by nobody else"));
  }
  return absl::OkStatus();
}

absl::Status WriteWhole(const std::string& folder, const std::string& name, std::string_view bytes) {
  static std::atomic<uint64_t> count{0};
  const std::string path = absl::StrCat(folder, "/", name);
  const std::string part = absl::StrCat(folder, "/part.", getpid(), ".", count.fetch_add(1), ".", RandomName().substr(0, 8));
  Descriptor file(open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file.get() < 0) return FileError("write", path, errno);
  absl::Status status = WriteAll(file.get(), bytes, path);
  // Network file systems tell only now that the space is out.
  if (close(file.release()) != 0 && status.ok()) status = FileError("write", path, errno);
  if (status.ok() && rename(part.c_str(), path.c_str()) != 0) status = FileError("write", path, errno);
  if (!status.ok()) unlink(part.c_str());
  return status;
}

absl::StatusOr<bool> CreateOnce(const std::string& path) {
  Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file.get() >= 0) return true;
  if (errno == EEXIST) return false;
  return FileError("make", path, errno);
}

absl::StatusOr<std::optional<std::string>> ReadWhole(const std::string& path, int64_t limit_bytes) {
  Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.get() < 0) {
    if (errno == ENOENT) return std::optional<std::string>();
    return FileError("read", path, errno);
  }
  struct stat found;
  if (fstat(file.get(), &found) != 0) return FileError("read", path, errno);
  if (!S_ISREG(found.st_mode) || found.st_size > limit_bytes) {
    return absl::UnavailableError(absl::StrCat("read ", path, ": not a file of at most ", limit_bytes, " bytes"));
  }
  std::string bytes(static_cast<size_t>(found.st_size), '\0');
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t got = read(file.get(), bytes.data() + at, bytes.size() - at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return FileError("read", path, got < 0 ? errno : EIO);
    at += static_cast<size_t>(got);
  }
  return std::optional<std::string>(std::move(bytes));
}

absl::StatusOr<std::vector<std::string>> ListFolder(const std::string& path) {
  DIR* folder = opendir(path.c_str());
  if (folder == nullptr) return FileError("list", path, errno);
  std::vector<std::string> names;
  while (const dirent* entry = readdir(folder)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  closedir(folder);
  return names;
}

void RemoveFolder(const std::string& path) {
  absl::StatusOr<std::vector<std::string>> names = ListFolder(path);
  if (names.ok()) {
    for (const std::string& name : *names) unlink(absl::StrCat(path, "/", name).c_str());
  }
  rmdir(path.c_str());
}

std::string FileNameOf(std::string_view key) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string name;
  for (const char c : key) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    if (plain) {
      name.push_back(c);
    } else {
      name.push_back('%');
      name.push_back(kDigits[static_cast<uint8_t>(c) >> 4]);
      name.push_back(kDigits[static_cast<uint8_t>(c) & 15]);
    }
  }
  return name;
}

std::string RandomName() {
  unsigned char bytes[16] = {};
  size_t have = 0;
  while (have < sizeof(bytes)) {
    const ssize_t got = getrandom(bytes + have, sizeof(bytes) - have, 0);
    if (got > 0) have += static_cast<size_t>(got);
  }
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(bytes), sizeof(bytes)));
}

absl::StatusOr<FileLock> FileLock::Acquire(const std::string& path, absl::Duration timeout) {
  const absl::Time start = absl::Now();
  for (int round = 0;; ++round) {
    Descriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (file.get() < 0) return FileError("lock", path, errno);
    if (flock(file.get(), LOCK_EX | LOCK_NB) == 0) {
      // A holder may have removed the file between our open and our lock: then this is a lock on nothing.
      if (SameFile(file.get(), path)) return FileLock(path, file.release());
      continue;
    }
    if (errno != EWOULDBLOCK && errno != EINTR) return FileError("lock", path, errno);
    const absl::Duration left = timeout - (absl::Now() - start);
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(
          absl::StrCat("lock ", path, ": somebody else has held it for ", absl::FormatDuration(timeout)));
    }
    absl::SleepFor(std::min(left, absl::Milliseconds(1 << std::min(round, 4))));
  }
}

FileLock::FileLock(FileLock&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

void FileLock::RemoveAndRelease() {
  if (descriptor_ < 0) return;
  unlink(path_.c_str());
  close(std::exchange(descriptor_, -1));
}

}  // namespace zeroshard::comm

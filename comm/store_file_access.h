// Small files that appear whole: how FileStore touches the disk. Each error names the path and what the system said.
//
// Errors, of all: kInvalidArgument a path that is missing, no folder, or not permitted; kResourceExhausted no space or quota;
// kUnavailable the rest.
//
// Example:
//   ZS_RETURN_IF_ERROR(MakePrivateFolder("/shared/job7/zeroshard"));
//   ZS_RETURN_IF_ERROR(WriteWhole("/shared/job7/zeroshard", "answer", "yes"));
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace zeroshard::comm {

// `what` failed on `path` with errno `error`.
absl::Status FileError(std::string_view what, std::string_view path, int error);

// Makes the folder (mode 0700) where there is none; its parent is there. What is there already must be a folder of this user's
// that nobody else may write, and no link.
absl::Status MakePrivateFolder(const std::string& path);

// Puts a file of mode 0600 in place of what was under `name`: readers see the old one or the new one.
absl::Status WriteWhole(const std::string& folder, const std::string& name, std::string_view bytes);

// Makes an empty file; false where there is one already.
absl::StatusOr<bool> CreateOnce(const std::string& path);

// The file's bytes, or nothing where there is none. kUnavailable beyond `limit_bytes`.
absl::StatusOr<std::optional<std::string>> ReadWhole(const std::string& path, int64_t limit_bytes);

// Names in the folder, in no order. Listing also refreshes what a network file system remembers of it.
absl::StatusOr<std::vector<std::string>> ListFolder(const std::string& path);

// Removes the folder and what is in it, one level deep; says nothing.
void RemoveFolder(const std::string& path);

// `key` as a file name: letters, digits and "-_" stay, the rest becomes %XX. At most three times as long.
std::string FileNameOf(std::string_view key);

// 32 hexadecimal digits that nobody else has.
std::string RandomName();

// Holds other processes, and other FileLocks of this one, off while it lives. Freed by the system where the holder dies.
class FileLock {
 public:
  // Waits until `timeout`. Errors: kDeadlineExceeded somebody else holds it.
  static absl::StatusOr<FileLock> Acquire(const std::string& path, absl::Duration timeout);

  FileLock() = default;
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock();

  // Removes the file and lets go.
  void RemoveAndRelease();

 private:
  FileLock(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_;
  int descriptor_ = -1;
};

}  // namespace zeroshard::comm

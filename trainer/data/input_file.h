// A file that is read at given offsets, never mapped: one that shrinks or fails under the reader is an error, not a signal.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(InputFile file, InputFile::Open("train.bin"));
//   ZS_RETURN_IF_ERROR(file.Read(offset, tokens.data(), 2 * tokens.size()));
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace zeroshard::trainer {

class InputFile {
 public:
  // Errors: kNotFound, kPermissionDenied, kInvalidArgument for what is no ordinary file; with the path and the system's
  // words.
  static absl::StatusOr<InputFile> Open(const std::string& path);
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }  // bytes, when it was opened

  // All of [offset, offset + bytes). Allocates nothing where it succeeds.
  // Errors: kDataLoss, with path and offset.
  absl::Status Read(int64_t offset, void* to, int64_t bytes) const;

 private:
  InputFile(std::string path, int descriptor, int64_t size) : path_(std::move(path)), descriptor_(descriptor), size_(size) {}

  std::string path_;
  int descriptor_ = -1;
  int64_t size_ = 0;
};

}  // namespace zeroshard::trainer

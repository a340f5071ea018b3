// A file that is written from its beginning through a buffer, with the system's words where that fails.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(OutputFile out, OutputFile::Create(partial));
//   ZS_RETURN_IF_ERROR(out.Append(bytes));
//   ZS_RETURN_IF_ERROR(out.Close());
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace zeroshard::trainer {

class OutputFile {
 public:
  // Mode 0600; what was there is dropped.
  static absl::StatusOr<OutputFile> Create(const std::string& path);
  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;

  absl::Status Append(std::string_view bytes);
  // Writes the first bytes anew: a header whose counts are known at the end.
  absl::Status Overwrite(std::string_view first_bytes);
  // Flushes to the disk. Without it the file's contents are not to be trusted.
  absl::Status Close();

 private:
  OutputFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  absl::Status Flush();

  std::string path_;
  int descriptor_ = -1;
  std::string pending_;
};

}  // namespace zeroshard::trainer

// Whether files are text that a model can be trained on: found before any rank starts.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(std::vector<std::string> files, ListDataFiles("corpus/"));
//   for (const std::string& file : files) ZS_RETURN_IF_ERROR(CheckText(file));
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace zeroshard::trainer {

// `path` itself if it is a file; if it is a folder, the files in it and below, hidden ones left out, by name.
// Errors: kNotFound, kPermissionDenied; kInvalidArgument for a folder that holds none, or what is neither file nor folder.
absl::StatusOr<std::vector<std::string>> ListDataFiles(const std::string& path);

// Text is UTF-8 without zero bytes; one byte in a hundred may be wrong (old texts have stray ones). The first GiB is looked
// at. Errors: kInvalidArgument, with file and offset, for an empty or binary file; as InputFile.
absl::Status CheckText(const std::string& path);

// Counts bytes that are part of no well-formed UTF-8 character, of a text that comes in pieces.
class Utf8Check {
 public:
  void Feed(std::span<const uint8_t> bytes);

  int64_t malformed() const { return malformed_; }
  int64_t first_malformed() const { return first_malformed_; }  // its offset; -1: none

 private:
  void Malformed(int64_t offset, int64_t bytes);

  int64_t offset_ = 0;
  int64_t malformed_ = 0;
  int64_t first_malformed_ = -1;
  int expected_ = 0;    // continuation bytes that the present character still lacks
  int64_t length_ = 0;  // bytes of it seen
};

}  // namespace zeroshard::trainer

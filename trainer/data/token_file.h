// A file of tokens, as it lies on disk: where its tokens begin, how many bytes each takes, how many there are.
//
// Four kinds are read: text, each byte a token; nanoGPT's .bin (uint16, no header); llm.c's .bin (256 int32 of header: magic
// 20240520, version 1, count; then uint16), and its form for larger vocabularies (magic 20240801, version 7; uint32).
//
// Example:
//   ZS_ASSIGN_OR_RETURN(TokenFile file, DescribeTokenFile("train.bin"));
//   file.tokens;                                            // 10'000'000
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace zeroshard::trainer {

inline constexpr int64_t kTokenHeaderBytes = 1024;

struct TokenFile {
  std::string path;
  int64_t first_byte = 0;
  int bytes_per_token = 1;  // 1, 2 or 4, little-endian
  int64_t tokens = 0;
};

// What the header (if any) and the size of a .bin file say.
// Errors: kNotFound, kPermissionDenied; kInvalidArgument, with file and offset, for a header of another version, a file
// shorter than its header says, or a size that is no whole number of tokens.
absl::StatusOr<TokenFile> DescribeTokenFile(const std::string& path);

// A text file whose bytes are its tokens. Errors: kNotFound, kPermissionDenied.
absl::StatusOr<TokenFile> DescribeByteFile(const std::string& path);

// llm.c's header for `tokens` tokens of `bytes_per_token` (2 or 4) bytes: kTokenHeaderBytes bytes.
std::string TokenHeader(int64_t tokens, int bytes_per_token);

}  // namespace zeroshard::trainer

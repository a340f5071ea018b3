// The tokens of several files, end to end, read where they are asked for.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(TokenStream stream, TokenStream::Open(files));
//   ZS_RETURN_IF_ERROR(stream.Read(first, std::span(tokens)));     // across file ends
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/trainer/data/input_file.h"
#include "zeroshard/trainer/data/token_file.h"

namespace zeroshard::trainer {

class TokenStream {
 public:
  // Errors: as InputFile::Open; kDataLoss if a file has become shorter than its description.
  static absl::StatusOr<TokenStream> Open(std::vector<TokenFile> files);

  int64_t tokens() const { return ends_.empty() ? 0 : ends_.back(); }
  const std::vector<TokenFile>& files() const { return files_; }

  // Tokens [first, first + to.size()), which lie within tokens(). Allocates nothing where it succeeds.
  // Errors: kDataLoss, with file and offset.
  absl::Status Read(int64_t first, std::span<int32_t> to);

  // That every token of [first, first + tokens.size()), as read, is below `vocab`.
  // Errors: kInvalidArgument, with the token, the file and the byte offset.
  absl::Status CheckVocabulary(int64_t first, std::span<const int32_t> tokens, int64_t vocab) const;

  // Where token `index` lies, for messages: "train.bin, offset 1024".
  std::string Place(int64_t index) const;

 private:
  size_t FileOf(int64_t index) const;
  absl::Status ReadFrom(size_t file, int64_t first, std::span<int32_t> to);

  std::vector<TokenFile> files_;
  std::vector<InputFile> inputs_;
  std::vector<int64_t> ends_;  // tokens up to the end of each file
  std::vector<uint8_t> window_;
};

// Reads the stream's first `limit_bytes` bytes and checks every token.
// Errors: as TokenStream::CheckVocabulary.
absl::Status CheckVocabulary(TokenStream& stream, int64_t vocab, int64_t limit_bytes);

}  // namespace zeroshard::trainer

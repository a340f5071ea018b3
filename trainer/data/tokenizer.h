// Text to tokens and back: bytes, or the pieces of a SentencePiece model.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, LoadTokenizer("bytes"));
//   std::vector<int32_t> tokens;
//   ZS_RETURN_IF_ERROR(tokenizer->Encode("zero", tokens));      // {122, 101, 114, 111}
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace zeroshard::trainer {

// Thread-safe once it is loaded.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual int64_t vocab() const = 0;
  // Appends the tokens of whole lines of text. Errors: kInvalidArgument with the tokenizer's words.
  virtual absl::Status Encode(std::string_view text, std::vector<int32_t>& tokens) const = 0;
  // Tokens beyond vocab() give nothing.
  virtual std::string Decode(std::span<const int32_t> tokens) const = 0;
  // Whether a text file's bytes are its tokens, so that it is read as it lies.
  virtual bool is_bytes() const = 0;
};

// `name`: "bytes", or the file of a SentencePiece model. Errors: kNotFound, kInvalidArgument, with the file and what is
// wrong.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(const std::string& name);

// Trains a SentencePiece model of `vocab` pieces on about `sample_bytes` of a text file, taken evenly from all of it, and
// writes it. The same text gives the same model. Errors: kInvalidArgument with SentencePiece's words; kDataLoss.
absl::Status TrainTokenizer(const std::string& text_path, int64_t vocab, int64_t sample_bytes,
                            const std::string& model_path);

}  // namespace zeroshard::trainer

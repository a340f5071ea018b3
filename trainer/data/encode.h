// Encodes a text file into a token file, in pieces, so that neither is ever held whole.
//
// Example:
//   ZS_RETURN_IF_ERROR(EncodeText("corpus.txt", *tokenizer, "corpus.bin"));
#pragma once

#include <string>

#include "absl/status/status.h"
#include "zeroshard/trainer/data/tokenizer.h"

namespace zeroshard::trainer {

// Writes llm.c's format (token_file.h), two bytes a token where the vocabulary fits, else four.
// Errors: those of the tokenizer; kDataLoss; as OutputFile.
absl::Status EncodeText(const std::string& text_path, const Tokenizer& tokenizer, const std::string& to_path);

}  // namespace zeroshard::trainer

// All that is done to a data set before any rank starts: found, recognised, unpacked, encoded, checked.
//
// Note: What data may be. A UTF-8 text file, or one packed by gzip; a token file (.bin: nanoGPT's or llm.c's, see
// token_file.h); a folder of either. No name at all is the English text of Debian's dict-gcide. Text under a SentencePiece
// tokenizer is encoded once, into the cache folder (cache.h); under `bytes` it is read as it lies. Several files are read
// end to end, by name.
//
// Note: The automatic tokenizer ("") is a SentencePiece model of kAutomaticVocab pieces for dict-gcide, trained on it once
// and kept in the cache; bytes for other text, and where `vocab` has no room for so many.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(PreparedData data, PrepareData({.path = "corpus/", .tokenizer = "bytes"}, context));
//   data.vocab;                                                // 256
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/trainer/data/token_file.h"

namespace zeroshard::trainer {

inline constexpr int64_t kAutomaticVocab = 2048;
// Of token files that nobody gave a vocabulary for: GPT-2's 50257, rounded up to a multiple of 128.
inline constexpr int64_t kTokenFileVocab = 50304;

struct DataOptions {
  std::string path = {};       // empty: dict-gcide
  std::string tokenizer = {};  // "bytes", a SentencePiece model's file, or empty: automatic
  int64_t vocab = 0;           // 0: as large as the tokenizer's
  // Whether another process has looked at text and token values just now: it is not done again.
  bool checked = false;
  // Told what takes long: "unpacking ...".
  std::function<void(std::string_view)> notice = {};
};

struct PreparedData {
  std::vector<TokenFile> files;
  int64_t tokens = 0;
  int64_t vocab = 0;
  std::string tokenizer;      // for LoadTokenizer; empty: nobody knows (token files)
  bool fully_checked = true;  // every token was seen to be below vocab; where not, batches are checked as they are read
};

// `context`: tokens of a sequence; the data must hold at least one, and the target after it.
// Errors: kInvalidArgument, kNotFound, kPermissionDenied, kDataLoss, with file, offset, and the remedy.
absl::StatusOr<PreparedData> PrepareData(const DataOptions& options, int64_t context);

}  // namespace zeroshard::trainer

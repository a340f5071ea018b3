#include "zeroshard/trainer/data/prepare.h"

#include <fstream>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/trainer/data/cache.h"
#include "zeroshard/trainer/data/encode.h"
#include "zeroshard/trainer/data/gunzip.h"
#include "zeroshard/trainer/data/text_check.h"
#include "zeroshard/trainer/data/token_stream.h"
#include "zeroshard/trainer/data/tokenizer.h"

namespace zeroshard::trainer {
namespace {

constexpr char kGcide[] = "/usr/share/dictd/gcide.dict.dz";
constexpr int64_t kTokenizerSampleBytes = 4'000'000;
constexpr int64_t kCheckedBytes = int64_t{1} << 30;

void Notice(const DataOptions& options, const std::string& text) {
  if (options.notice) options.notice(text);
}

absl::StatusOr<std::vector<std::string>> FindFiles(const DataOptions& options) {
  if (!options.path.empty()) return ListDataFiles(options.path);
  absl::StatusOr<std::vector<std::string>> files = ListDataFiles(kGcide);
  if (files.ok()) return files;
  return absl::NotFoundError(absl::StrCat(
      "no data: ", kGcide, " is not there; install it (apt-get install dict-gcide), or name a ", "text with --data"));
}

// The text that a gzip file holds, kept in the cache; another file as it is.
absl::StatusOr<std::string> Unpacked(const DataOptions& options, const std::string& path) {
  ZS_ASSIGN_OR_RETURN(const bool packed, IsGzip(path));
  if (!packed) return path;
  ZS_ASSIGN_OR_RETURN(const std::string folder, CacheFolder());
  ZS_ASSIGN_OR_RETURN(const std::string key, CacheKey(path, "text"));
  return Cached(folder, key + ".txt", [&](const std::string& partial) {
    Notice(options, absl::StrCat("unpacking ", path, " (once)"));
    return Gunzip(path, partial);
  });
}

absl::StatusOr<std::string> ChooseTokenizer(const DataOptions& options, const std::string& text) {
  if (!options.tokenizer.empty()) return options.tokenizer;
  const bool room = options.vocab == 0 || options.vocab >= kAutomaticVocab;
  if (!options.path.empty() || !room) return std::string("bytes");
  ZS_ASSIGN_OR_RETURN(const std::string folder, CacheFolder());
  ZS_ASSIGN_OR_RETURN(const std::string key, CacheKey(text, absl::StrCat("bpe ", kAutomaticVocab)));
  return Cached(folder, key + ".model", [&](const std::string& partial) {
    Notice(options, absl::StrCat("training a SentencePiece tokenizer of ", kAutomaticVocab, " pieces (once, about 10 s)"));
    return TrainTokenizer(text, kAutomaticVocab, kTokenizerSampleBytes, partial);
  });
}

absl::StatusOr<TokenFile> Encoded(const DataOptions& options, const std::string& text, const std::string& tokenizer_name,
                                  const Tokenizer& tokenizer) {
  if (tokenizer.is_bytes()) return DescribeByteFile(text);
  ZS_ASSIGN_OR_RETURN(const std::string folder, CacheFolder());
  ZS_ASSIGN_OR_RETURN(const std::string tokenizer_key, CacheKey(tokenizer_name, "tokenizer"));
  ZS_ASSIGN_OR_RETURN(const std::string key, CacheKey(text, tokenizer_key));
  ZS_ASSIGN_OR_RETURN(const std::string path, Cached(folder, key + ".bin", [&](const std::string& partial) {
                        Notice(options, absl::StrCat("encoding ", text, " (once)"));
                        return EncodeText(text, tokenizer, partial);
                      }));
  return DescribeTokenFile(path);
}

absl::Status DescribeTexts(const DataOptions& options, const std::vector<std::string>& files, PreparedData& data) {
  std::vector<std::string> texts;
  for (const std::string& file : files) {
    ZS_ASSIGN_OR_RETURN(texts.emplace_back(), Unpacked(options, file));
    if (!options.checked) ZS_RETURN_IF_ERROR(CheckText(texts.back()));
  }
  ZS_ASSIGN_OR_RETURN(data.tokenizer, ChooseTokenizer(options, texts.front()));
  ZS_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer, LoadTokenizer(data.tokenizer));
  for (const std::string& text : texts) {
    ZS_ASSIGN_OR_RETURN(data.files.emplace_back(), Encoded(options, text, data.tokenizer, *tokenizer));
  }
  data.vocab = options.vocab == 0 ? tokenizer->vocab() : options.vocab;
  if (tokenizer->vocab() <= data.vocab) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--vocab=", data.vocab, " is smaller than the ", tokenizer->vocab(),
                                                 " tokens of the tokenizer '", data.tokenizer,
                                                 "': take --vocab=", tokenizer->vocab(), " or more, or leave it out"));
}

absl::Status DescribeTokenFiles(const DataOptions& options, const std::vector<std::string>& files, PreparedData& data) {
  for (const std::string& file : files) {
    ZS_ASSIGN_OR_RETURN(data.files.emplace_back(), DescribeTokenFile(file));
  }
  data.vocab = options.vocab == 0 ? kTokenFileVocab : options.vocab;
  data.tokenizer = options.tokenizer;
  return data.tokenizer.empty() ? absl::OkStatus() : LoadTokenizer(data.tokenizer).status();
}

}  // namespace

absl::StatusOr<PreparedData> PrepareData(const DataOptions& options, int64_t context) {
  ZS_ASSIGN_OR_RETURN(const std::vector<std::string> files, FindFiles(options));
  const bool token_files = absl::EndsWith(files.front(), ".bin");
  for (const std::string& file : files) {
    if (absl::EndsWith(file, ".bin") == token_files) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the data folder '", options.path, "' mixes token files (.bin) and text: '", files.front(), "' and '", file, "'"));
  }
  PreparedData data;
  ZS_RETURN_IF_ERROR(token_files ? DescribeTokenFiles(options, files, data) : DescribeTexts(options, files, data));
  ZS_ASSIGN_OR_RETURN(TokenStream stream, TokenStream::Open(data.files));
  data.tokens = stream.tokens();
  if (data.tokens < context + 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the data '", options.path, "' holds ", data.tokens, " tokens, fewer than one ", "sequence of --context=", context,
        " and the token after it: take more data, or ", "--context=", data.tokens > 1 ? data.tokens - 1 : 1, " or less"));
  }
  int64_t bytes = 0;
  for (const TokenFile& file : data.files) bytes += file.tokens * file.bytes_per_token;
  data.fully_checked = bytes <= kCheckedBytes;
  if (!options.checked) ZS_RETURN_IF_ERROR(CheckVocabulary(stream, data.vocab, kCheckedBytes));
  return data;
}

}  // namespace zeroshard::trainer

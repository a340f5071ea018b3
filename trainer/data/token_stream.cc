#include "zeroshard/trainer/data/token_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::trainer {
namespace {

// Bytes read at a time.
constexpr int64_t kWindowBytes = 1 << 16;

template <class T>
void Widen(const uint8_t* bytes, std::span<int32_t> to) {
  for (size_t i = 0; i < to.size(); ++i) {
    T value;
    std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
    to[i] = static_cast<int32_t>(value);
  }
}

}  // namespace

absl::StatusOr<TokenStream> TokenStream::Open(std::vector<TokenFile> files) {
  TokenStream stream;
  int64_t end = 0;
  for (TokenFile& file : files) {
    ZS_ASSIGN_OR_RETURN(InputFile input, InputFile::Open(file.path));
    if (input.size() < file.first_byte + file.tokens * file.bytes_per_token) {
      return absl::DataLossError(absl::StrCat("'", file.path, "' has ", input.size(), " bytes, fewer than its ", file.tokens,
                                              " tokens take: was it cut while it was read?"));
    }
    end += file.tokens;
    stream.ends_.push_back(end);
    stream.inputs_.push_back(std::move(input));
    stream.files_.push_back(std::move(file));
  }
  stream.window_.resize(kWindowBytes);
  return stream;
}

size_t TokenStream::FileOf(int64_t index) const {
  return static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
}

absl::Status TokenStream::ReadFrom(size_t file, int64_t first, std::span<int32_t> to) {
  const TokenFile& facts = files_[file];
  const int64_t width = facts.bytes_per_token;
  while (!to.empty()) {
    const auto count = std::min(to.size(), static_cast<size_t>(kWindowBytes / width));
    const std::span<int32_t> part = to.first(count);
    ZS_RETURN_IF_ERROR(
        inputs_[file].Read(facts.first_byte + first * width, window_.data(), static_cast<int64_t>(count) * width));
    if (width == 1) Widen<uint8_t>(window_.data(), part);
    if (width == 2) Widen<uint16_t>(window_.data(), part);
    if (width == 4) Widen<uint32_t>(window_.data(), part);
    first += static_cast<int64_t>(count);
    to = to.subspan(count);
  }
  return absl::OkStatus();
}

absl::Status TokenStream::Read(int64_t first, std::span<int32_t> to) {
  while (!to.empty()) {
    const size_t file = FileOf(first);
    const int64_t begin = file == 0 ? 0 : ends_[file - 1];
    const auto count = static_cast<size_t>(std::min(static_cast<int64_t>(to.size()), ends_[file] - first));
    ZS_RETURN_IF_ERROR(ReadFrom(file, first - begin, to.first(count)));
    first += static_cast<int64_t>(count);
    to = to.subspan(count);
  }
  return absl::OkStatus();
}

absl::Status TokenStream::CheckVocabulary(int64_t first, std::span<const int32_t> tokens, int64_t vocab) const {
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto token = static_cast<int64_t>(static_cast<uint32_t>(tokens[i]));
    if (token < vocab) continue;
    return absl::InvalidArgumentError(absl::StrCat(Place(first + static_cast<int64_t>(i)), ": token ", token,
                                                   " is beyond the vocabulary of ", vocab, ": take --vocab=", token + 1,
                                                   " or more, or the data's own tokenizer"));
  }
  return absl::OkStatus();
}

std::string TokenStream::Place(int64_t index) const {
  const size_t file = FileOf(index);
  const int64_t begin = file == 0 ? 0 : ends_[file - 1];
  return absl::StrCat(files_[file].path, ", offset ",
                      files_[file].first_byte + (index - begin) * files_[file].bytes_per_token);
}

absl::Status CheckVocabulary(TokenStream& stream, int64_t vocab, int64_t limit_bytes) {
  std::vector<int32_t> tokens(kWindowBytes);
  int64_t begin = 0;
  for (const TokenFile& file : stream.files()) {
    const int64_t checked = std::min(file.tokens, limit_bytes / file.bytes_per_token);
    for (int64_t done = 0; done < checked; done += static_cast<int64_t>(tokens.size())) {
      const std::span<int32_t> part =
          std::span(tokens).first(static_cast<size_t>(std::min<int64_t>(kWindowBytes, checked - done)));
      ZS_RETURN_IF_ERROR(stream.Read(begin + done, part));
      ZS_RETURN_IF_ERROR(stream.CheckVocabulary(begin + done, part, vocab));
    }
    limit_bytes -= checked * file.bytes_per_token;
    begin += file.tokens;
  }
  return absl::OkStatus();
}

}  // namespace zeroshard::trainer

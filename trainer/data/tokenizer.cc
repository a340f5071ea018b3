#include "zeroshard/trainer/data/tokenizer.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/trainer/data/input_file.h"
#include "zeroshard/trainer/data/sentence_piece.h"

namespace zeroshard::trainer {
namespace {

// The sample that a tokenizer is trained on is taken in runs of so many lines.
constexpr int64_t kLinesOfRun = 64;

class ByteTokenizer : public Tokenizer {
 public:
  int64_t vocab() const override { return 256; }
  bool is_bytes() const override { return true; }
  absl::Status Encode(std::string_view text, std::vector<int32_t>& tokens) const override {
    for (const char c : text) tokens.push_back(static_cast<uint8_t>(c));
    return absl::OkStatus();
  }
  std::string Decode(std::span<const int32_t> tokens) const override {
    std::string text;
    for (const int32_t token : tokens) {
      if (token >= 0 && token < 256) text.push_back(static_cast<char>(token));
    }
    return text;
  }
};

class PieceTokenizer : public Tokenizer {
 public:
  explicit PieceTokenizer(SentencePiece pieces) : pieces_(std::move(pieces)) {}

  int64_t vocab() const override { return pieces_.vocab(); }
  bool is_bytes() const override { return false; }
  absl::Status Encode(std::string_view text, std::vector<int32_t>& tokens) const override {
    if (pieces_.keeps_line_ends()) return EncodePart(text, tokens);
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
      ZS_RETURN_IF_ERROR(EncodePart(text.substr(0, end), tokens));
      text.remove_prefix(end);
    }
    return absl::OkStatus();
  }
  std::string Decode(std::span<const int32_t> tokens) const override {
    std::vector<int> known;
    for (const int32_t token : tokens) {
      if (token >= 0 && token < vocab()) known.push_back(token);
    }
    return pieces_.Decode(known);
  }

 private:
  absl::Status EncodePart(std::string_view text, std::vector<int32_t>& tokens) const {
    std::vector<int> part;
    const std::string error = pieces_.Encode(text, &part);
    if (!error.empty()) return absl::InvalidArgumentError(absl::StrCat("SentencePiece: ", error));
    tokens.insert(tokens.end(), part.begin(), part.end());
    return absl::OkStatus();
  }

  SentencePiece pieces_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(const std::string& name) {
  if (name == "bytes") return std::make_unique<ByteTokenizer>();
  ZS_RETURN_IF_ERROR(InputFile::Open(name).status());
  SentencePiece pieces;
  const std::string error = pieces.Load(name);
  if (!error.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("tokenizer '", name, "' is no SentencePiece model: ", error));
  }
  return std::make_unique<PieceTokenizer>(std::move(pieces));
}

absl::Status TrainTokenizer(const std::string& text_path, int64_t vocab, int64_t sample_bytes,
                            const std::string& model_path) {
  ZS_ASSIGN_OR_RETURN(const InputFile text, InputFile::Open(text_path));
  const int64_t one_run_in = std::max<int64_t>(1, text.size() / std::max<int64_t>(1, sample_bytes));
  std::ifstream lines(text_path);
  int64_t line = 0;
  const auto next_line = [&](std::string* to) {
    while (std::getline(lines, *to)) {
      if (line++ / kLinesOfRun % one_run_in == 0) return true;
    }
    return false;
  };
  const std::string error = SentencePiece::Train(next_line, static_cast<int>(vocab), model_path);
  return error.empty() ? absl::OkStatus()
                       : absl::InvalidArgumentError(absl::StrCat("cannot train a tokenizer on '", text_path, "': ", error));
}

}  // namespace zeroshard::trainer

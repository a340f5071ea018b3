#include "zeroshard/trainer/data/encode.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "zeroshard/device/status_macros.h"
#include "zeroshard/trainer/data/input_file.h"
#include "zeroshard/trainer/data/output_file.h"
#include "zeroshard/trainer/data/token_file.h"

namespace zeroshard::trainer {
namespace {

// Text is encoded in pieces of about this size that end with a line; a longer line is cut. The size is part of the result
// where a line is longer: it is not to be changed lightly.
constexpr int64_t kPieceBytes = 1 << 16;

absl::Status AppendTokens(OutputFile& out, std::span<const int32_t> tokens, int bytes_per_token) {
  std::string bytes;
  for (const int32_t token : tokens) {
    for (int b = 0; b < bytes_per_token; ++b) bytes.push_back(static_cast<char>(static_cast<uint32_t>(token) >> (8 * b)));
  }
  return out.Append(bytes);
}

}  // namespace

absl::Status EncodeText(const std::string& text_path, const Tokenizer& tokenizer, const std::string& to_path) {
  ZS_ASSIGN_OR_RETURN(const InputFile text, InputFile::Open(text_path));
  ZS_ASSIGN_OR_RETURN(OutputFile out, OutputFile::Create(to_path));
  const int bytes_per_token = tokenizer.vocab() <= (1 << 16) ? 2 : 4;
  ZS_RETURN_IF_ERROR(out.Append(TokenHeader(0, bytes_per_token)));
  std::string window(static_cast<size_t>(kPieceBytes), '\0');
  std::vector<int32_t> tokens;
  int64_t written = 0;
  for (int64_t offset = 0; offset < text.size();) {
    const int64_t bytes = std::min(kPieceBytes, text.size() - offset);
    ZS_RETURN_IF_ERROR(text.Read(offset, window.data(), bytes));
    std::string_view piece(window.data(), static_cast<size_t>(bytes));
    const size_t last_line_end = piece.rfind('\n');
    if (last_line_end != std::string_view::npos) piece = piece.substr(0, last_line_end + 1);
    tokens.clear();
    ZS_RETURN_IF_ERROR(tokenizer.Encode(piece, tokens));
    ZS_RETURN_IF_ERROR(AppendTokens(out, tokens, bytes_per_token));
    written += static_cast<int64_t>(tokens.size());
    offset += static_cast<int64_t>(piece.size());
  }
  ZS_RETURN_IF_ERROR(out.Overwrite(TokenHeader(written, bytes_per_token)));
  return out.Close();
}

}  // namespace zeroshard::trainer

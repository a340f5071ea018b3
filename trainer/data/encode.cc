#include "zeroshard/trainer/data/encode.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

#include "zeroshard/device/status_macros.h"
#include "zeroshard/trainer/data/input_file.h"
#include "zeroshard/trainer/data/output_file.h"
#include "zeroshard/trainer/data/token_file.h"

namespace zeroshard::trainer {
namespace {

// Text is encoded in pieces of about this size that end with a line; a longer line is cut. The size is part of the result
// where a line is longer: it is not to be changed lightly.
constexpr int64_t kPieceBytes = 1 << 18;

absl::Status AppendTokens(OutputFile& out, std::span<const int32_t> tokens, int bytes_per_token) {
  std::string bytes;
  for (const int32_t token : tokens) {
    for (int b = 0; b < bytes_per_token; ++b) bytes.push_back(static_cast<char>(static_cast<uint32_t>(token) >> (8 * b)));
  }
  return out.Append(bytes);
}

struct Piece {
  std::string text;
  std::vector<int32_t> tokens;
  absl::Status status;
};

// The piece that begins at `offset`, which moves behind it.
absl::Status ReadPiece(const InputFile& file, int64_t& offset, Piece& piece) {
  piece.text.resize(static_cast<size_t>(std::min(kPieceBytes, file.size() - offset)));
  ZS_RETURN_IF_ERROR(file.Read(offset, piece.text.data(), static_cast<int64_t>(piece.text.size())));
  const size_t last_line_end = piece.text.rfind('\n');
  if (last_line_end != std::string::npos) piece.text.resize(last_line_end + 1);
  offset += static_cast<int64_t>(piece.text.size());
  return absl::OkStatus();
}

// Each piece on a thread of its own: what one gives does not depend on the others.
void EncodeAtOnce(const Tokenizer& tokenizer, std::span<Piece> pieces) {
  std::vector<std::thread> threads;
  for (Piece& piece : pieces) {
    threads.emplace_back([&tokenizer, &piece] {
      piece.tokens.clear();
      piece.status = tokenizer.Encode(piece.text, piece.tokens);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

absl::Status EncodeText(const std::string& text_path, const Tokenizer& tokenizer, const std::string& to_path) {
  ZS_ASSIGN_OR_RETURN(const InputFile text, InputFile::Open(text_path));
  ZS_ASSIGN_OR_RETURN(OutputFile out, OutputFile::Create(to_path));
  const int bytes_per_token = tokenizer.vocab() <= (1 << 16) ? 2 : 4;
  ZS_RETURN_IF_ERROR(out.Append(TokenHeader(0, bytes_per_token)));
  std::vector<Piece> pieces(std::max(1u, std::thread::hardware_concurrency()));
  int64_t written = 0;
  for (int64_t offset = 0; offset < text.size();) {
    size_t filled = 0;
    for (; filled < pieces.size() && offset < text.size(); ++filled)
      ZS_RETURN_IF_ERROR(ReadPiece(text, offset, pieces[filled]));
    EncodeAtOnce(tokenizer, std::span(pieces).first(filled));
    for (const Piece& piece : std::span(pieces).first(filled)) {
      ZS_RETURN_IF_ERROR(piece.status);
      ZS_RETURN_IF_ERROR(AppendTokens(out, piece.tokens, bytes_per_token));
      written += static_cast<int64_t>(piece.tokens.size());
    }
  }
  ZS_RETURN_IF_ERROR(out.Overwrite(TokenHeader(written, bytes_per_token)));
  return out.Close();
}

}  // namespace zeroshard::trainer

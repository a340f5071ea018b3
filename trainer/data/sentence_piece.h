// SentencePiece behind plain C++: its headers say that absl::string_view is std::string_view, which Debian's Abseil denies;
// so the two meet in no source. Errors are words, empty where all went well.
//
// Example:
//   SentencePiece pieces;
//   std::string error = pieces.Load("english.model");
//   pieces.Encode("a line of text\n", &ids);
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace zeroshard::trainer {

class SentencePiece {
 public:
  SentencePiece();
  ~SentencePiece();
  SentencePiece(SentencePiece&&) noexcept;
  SentencePiece& operator=(SentencePiece&&) noexcept;

  std::string Load(const std::string& model_path);
  int vocab() const;
  std::string Encode(std::string_view text, std::vector<int>* tokens) const;
  // The text of the tokens, white space and line ends included.
  std::string Decode(const std::vector<int>& tokens) const;
  // Whether the end of a line is a token; if not, text is encoded line by line and line ends are lost.
  bool keeps_line_ends() const;

  // Trains a byte-pair model of `vocab` pieces that keeps white space, line ends and any byte, and writes it. `next_line`
  // gives line after line, and false at the end.
  static std::string Train(const std::function<bool(std::string*)>& next_line, int vocab, const std::string& model_path);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace zeroshard::trainer

// The words of a PTX text.
//
// Example:
//   Tokens tokens(text);
//   if (tokens.Take(".entry")) name = tokens.Next();
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zeroshard::device::cuda::ptx {

class Tokens {
 public:
  // `text` outlives this.
  explicit Tokens(std::string_view text);

  bool AtEnd() const { return at_ == tokens_.size(); }
  // "" at the end.
  std::string_view Peek(size_t ahead = 0) const { return at_ + ahead < tokens_.size() ? tokens_[at_ + ahead].text : ""; }
  std::string_view Next();
  // Takes the next word if it is this one.
  bool Take(std::string_view word);
  // Ends the test where the next word is another.
  void Expect(std::string_view word);
  int64_t Integer();

  uint32_t line() const { return at_ < tokens_.size() ? tokens_[at_].line : 0; }
  size_t position() const { return at_; }
  void Seek(size_t position) { at_ = position; }
  // Past the brace that closes the one that comes next.
  void SkipBraces();

  // Ends the test with the place and what is wrong there.
  [[noreturn]] void Refuse(const std::string& why) const;

 private:
  struct Token {
    std::string_view text;
    uint32_t line;
  };
  std::vector<Token> tokens_;
  size_t at_ = 0;
};

}  // namespace zeroshard::device::cuda::ptx

#include "zeroshard/device/cuda/ptx/token.h"

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "zeroshard/device/late/end_test.h"

namespace zeroshard::device::cuda::ptx {
namespace {

bool IsOfWord(char c) { return absl::ascii_isalnum(c) || c == '_' || c == '$' || c == '%' || c == '.'; }

// Characters of the token that `text` begins with.
size_t LengthOf(std::string_view text) {
  if (text[0] == '"') return text.find('"', 1) + 1;
  const bool is_negative = text[0] == '-' && text.size() > 1 && absl::ascii_isdigit(text[1]);
  if (!IsOfWord(text[0]) && !is_negative) return 1;
  size_t length = 1;
  while (length < text.size() && IsOfWord(text[length])) ++length;
  return length;
}

}  // namespace

Tokens::Tokens(std::string_view text) {
  uint32_t line = 1;
  while (!text.empty()) {
    size_t length = 1;
    if (text[0] == '\n') {
      ++line;
    } else if (text.substr(0, 2) == "//") {
      length = std::min(text.find('\n'), text.size());
    } else if (!absl::ascii_isspace(text[0]) && text[0] != '\0') {
      length = LengthOf(text);
      tokens_.push_back({text.substr(0, length), line});
    }
    text.remove_prefix(length);
  }
}

std::string_view Tokens::Next() {
  if (AtEnd()) Refuse("the text ends");
  return tokens_[at_++].text;
}

bool Tokens::Take(std::string_view word) {
  if (Peek() != word) return false;
  ++at_;
  return true;
}

void Tokens::Expect(std::string_view word) {
  if (!Take(word)) Refuse(absl::StrCat("not ", std::string(word)));
}

int64_t Tokens::Integer() {
  const std::string word(Next());
  int64_t value = 0;
  uint64_t large = 0;
  if (absl::SimpleAtoi(word, &value)) return value;
  if (absl::SimpleAtoi(word, &large) || (word.substr(0, 2) == "0x" && absl::SimpleHexAtoi(word, &large)))
    return static_cast<int64_t>(large);
  --at_;
  Refuse("not a whole number");
}

void Tokens::SkipBraces() {
  Expect("{");
  for (int depth = 1; depth > 0;) {
    const std::string_view word = Next();
    if (word == "{") ++depth;
    if (word == "}") --depth;
  }
}

void Tokens::Refuse(const std::string& why) const {
  EndTest(absl::StrCat("PTX, line ", line(), ", at \"", std::string(Peek()), "\": ", why));
}

}  // namespace zeroshard::device::cuda::ptx

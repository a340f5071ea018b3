#include "zeroshard/tools/config/json_document.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace zeroshard::tools {
namespace {

// Far beyond any configuration, far below what a stack or memory bears.
constexpr size_t kDeepest = 64;
constexpr size_t kLargest = 4 << 20;

using Kind = JsonValue::Kind;

// Walks through text that the parser has accepted so far, token by token.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {
    if (text_.substr(0, 3) == "\xEF\xBB\xBF") at_ = 3;
  }

  // The beginning of the next token but one of ',' and ':'.
  TextPosition Next() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '/') {
        const bool line = text_.substr(at_, 2) == "//";
        const size_t end = line ? text_.find('\n', at_) : text_.find("*/", at_ + 2);
        Advance(end == std::string_view::npos ? text_.size() - at_ : end + (line ? 0 : 2) - at_);
      } else if (c == ',' || c == ':' || std::isspace(static_cast<unsigned char>(c)) != 0) {
        Advance(1);
      } else {
        break;
      }
    }
    return position_;
  }
  void Advance(size_t bytes) {
    for (const size_t end = std::min(text_.size(), at_ + bytes); at_ < end; ++at_) {
      const auto c = static_cast<unsigned char>(text_[at_]);
      if (c == '\n') {
        position_ = {position_.line + 1, 1};
      } else if ((c & 0xC0) != 0x80) {  // UTF-8's later bytes take no column
        ++position_.column;
      }
    }
  }
  TextPosition position() const { return position_; }
  // Number, literal: as it is written.
  std::string Word() {
    size_t end = at_;
    while (end < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[end])) != 0 || text_[end] == '+' ||
                                  text_[end] == '-' || text_[end] == '.')) {
      ++end;
    }
    std::string word(text_.substr(at_, end - at_));
    Advance(word.size());
    return word;
  }
  void PassText() {
    size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != '"') end += text_[end] == '\\' ? 2 : 1;
    Advance(end + 1 - at_);
  }

 private:
  std::string_view text_;
  size_t at_ = 0;
  TextPosition position_;
};

// Builds the tree from nlohmann's events.
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Builder(std::string_view text) : text_(text), cursor_(text) {}

  bool null() override { return Word(Kind::kNull); }
  bool boolean(bool) override { return Word(Kind::kBoolean); }
  bool number_integer(number_integer_t) override { return Word(Kind::kNumber); }
  bool number_unsigned(number_unsigned_t) override { return Word(Kind::kNumber); }
  bool number_float(number_float_t, const string_t&) override { return Word(Kind::kNumber); }
  bool binary(binary_t&) override { return false; }
  bool string(string_t& value) override {
    JsonValue text{.kind = Kind::kText, .position = cursor_.Next(), .text = value};
    cursor_.PassText();
    return Put(std::move(text)) != nullptr;
  }
  bool start_object(size_t) override { return Open(Kind::kObject); }
  bool start_array(size_t) override { return Open(Kind::kArray); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool key(string_t& name) override {
    const TextPosition position = cursor_.Next();
    cursor_.PassText();
    std::vector<JsonMember>& members = open_.back()->members;
    for (const JsonMember& member : members) {
      if (member.key != name) continue;
      return Fail(position, absl::StrCat("the key \"", name, "\" occurs twice; the first is in line ", member.position.line,
                                         ": leave one of them out"));
    }
    members.push_back({.key = name, .position = position, .value = {}});
    return true;
  }
  bool parse_error(size_t offset, const std::string&, const nlohmann::json::exception& problem) override {
    Cursor cursor(text_);
    cursor.Advance(offset == 0 ? 0 : offset - 1);
    std::string_view what = problem.what();
    const size_t colon = what.find(": ");
    if (colon != std::string_view::npos) what.remove_prefix(colon + 2);
    return Fail(cursor.position(), std::string(what));
  }

  JsonValue root;
  TextPosition error_position;
  std::string error;

 private:
  bool Fail(TextPosition position, std::string what) {
    error_position = position;
    error = std::move(what);
    return false;
  }
  JsonValue* Put(JsonValue value) {
    if (open_.empty()) {
      root = std::move(value);
      return &root;
    }
    JsonValue& parent = *open_.back();
    if (parent.kind == Kind::kArray) {
      parent.elements.push_back(std::move(value));
      return &parent.elements.back();
    }
    parent.members.back().value = std::move(value);
    return &parent.members.back().value;
  }
  bool Word(Kind kind) {
    JsonValue value{.kind = kind, .position = cursor_.Next()};
    value.text = cursor_.Word();
    return Put(std::move(value)) != nullptr;
  }
  bool Open(Kind kind) {
    JsonValue value{.kind = kind, .position = cursor_.Next()};
    if (open_.size() == kDeepest) return Fail(value.position, absl::StrCat("nested deeper than ", kDeepest));
    cursor_.Advance(1);
    // Stays where it is while it is open: only its own children are added meanwhile.
    open_.push_back(Put(std::move(value)));
    return true;
  }
  bool Close() {
    cursor_.Next();
    cursor_.Advance(1);
    open_.pop_back();
    return true;
  }

  std::string_view text_;
  Cursor cursor_;
  std::vector<JsonValue*> open_;
};

}  // namespace

const JsonMember* JsonValue::FindMember(std::string_view key) const {
  for (const JsonMember& member : members) {
    if (member.key == key) return &member;
  }
  return nullptr;
}

const JsonValue* JsonValue::Find(std::string_view key) const {
  const JsonMember* member = FindMember(key);
  return member == nullptr ? nullptr : &member->value;
}

std::string_view Describe(JsonValue::Kind kind) {
  switch (kind) {
    case Kind::kNull:
      return "null";
    case Kind::kBoolean:
      return "a boolean";
    case Kind::kNumber:
      return "a number";
    case Kind::kText:
      return "a text";
    case Kind::kArray:
      return "a list";
    case Kind::kObject:
      return "an object";
  }
  return "unknown";
}

std::string JsonDocument::Place(TextPosition position) const {
  return absl::StrCat(name_, ":", position.line, ":", position.column);
}

absl::StatusOr<JsonDocument> JsonDocument::Parse(std::string name, std::string_view text) {
  JsonDocument document;
  document.name_ = std::move(name);
  if (text.size() > kLargest) {
    return absl::InvalidArgumentError(
        absl::StrCat(document.name_, " has ", text.size(), " bytes; a configuration has at most ", kLargest));
  }
  Builder builder(text);
  const bool parsed = nlohmann::json::sax_parse(text.begin(), text.end(), &builder, nlohmann::json::input_format_t::json,
                                                /*strict=*/true, /*ignore_comments=*/true);
  if (!parsed) {
    return absl::InvalidArgumentError(absl::StrCat(document.Place(builder.error_position), ": ", builder.error));
  }
  document.root_ = std::move(builder.root);
  return document;
}

}  // namespace zeroshard::tools

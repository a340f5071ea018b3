// JSON whose every key and value knows its place: line and column, for errors that a person can act on.
//
// nlohmann-json reads; what is more strict or more kind here: a key that occurs twice in an object is an error, comments (// and /* */,
// as DeepSpeed's reader takes them) are passed over, and depth and size have a limit.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(JsonDocument document, JsonDocument::Parse("run.json", text));
//   const JsonValue* stage = document.root().Find("stage");       // null: there is none
//   return absl::InvalidArgumentError(document.Place(stage->position) + ": ...");   // "run.json:3:12: ..."
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace zeroshard::tools {

struct TextPosition {
  int line = 1;  // from 1, as editors count
  int column = 1;
};

struct JsonMember;

struct JsonValue {
  enum class Kind : uint8_t { kNull, kBoolean, kNumber, kText, kArray, kObject };
  Kind kind = Kind::kNull;
  TextPosition position = {};
  std::string text = {};  // of a boolean or number as it was written, of a text without its quotes and escapes
  std::vector<JsonValue> elements = {};
  std::vector<JsonMember> members = {};

  bool IsTrue() const { return kind == Kind::kBoolean && text == "true"; }
  const JsonMember* FindMember(std::string_view key) const;
  const JsonValue* Find(std::string_view key) const;
};

struct JsonMember {
  std::string key;
  TextPosition position;  // of the key
  JsonValue value;
};

// "null", "a boolean", "a number", ...
std::string_view Describe(JsonValue::Kind kind);

class JsonDocument {
 public:
  // `name` is what errors call the text. Errors: kInvalidArgument: "NAME:LINE:COLUMN: " and what is wrong there.
  static absl::StatusOr<JsonDocument> Parse(std::string name, std::string_view text);

  const JsonValue& root() const { return root_; }
  const std::string& name() const { return name_; }
  std::string Place(TextPosition position) const;

 private:
  std::string name_;
  JsonValue root_;
};

}  // namespace zeroshard::tools

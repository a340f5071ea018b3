// DeepSpeed's configuration as a source of flags' values, and its sections that have a type and parameters ("optimizer", "scheduler").
// Internal to deepspeed_config.cc.
//
// Example:
//   DeepSpeedSource source(document, flags);
//   ZS_RETURN_IF_ERROR(source.SetAbsent("clip", "0", "gradient_clipping"));   // where the file does not say
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/tools/config/json_document.h"
#include "zeroshard/tools/flags/flag_set.h"

namespace zeroshard::tools {

inline bool IsAuto(const JsonValue& value) { return value.kind == JsonValue::Kind::kText && value.text == "auto"; }

class DeepSpeedSource {
 public:
  DeepSpeedSource(const JsonDocument& document, FlagSet& flags) : document_(document), flags_(flags) {}

  const JsonDocument& document() const { return document_; }
  FlagSet& flags() { return flags_; }

  // The value at a path ("fp16.enabled"); null where it is not there, or is null.
  const JsonValue* Find(std::string_view path) const;
  // Sets a flag; "auto" leaves it as it is. Errors: kInvalidArgument for another kind of value; those of the flag.
  absl::Status Set(std::string_view flag, const JsonValue& value, const std::string& path, JsonValue::Kind kind);
  absl::Status SetText(std::string_view flag, const std::string& text, const JsonValue& at, const std::string& path);
  // Gives a flag DeepSpeed's default where the file has no such key.
  absl::Status SetAbsent(std::string_view flag, const std::string& text, const std::string& path);

  absl::Status Error(TextPosition at, const std::string& path, const std::string& what) const;
  absl::Status Error(const JsonValue& at, const std::string& path, const std::string& what) const {
    return Error(at.position, path, what);
  }

 private:
  const JsonDocument& document_;
  FlagSet& flags_;
};

// A parameter of a scheduler or optimizer, and the flag that it sets.
struct DeepSpeedParameter {
  const char* key;
  const char* flag;
  JsonValue::Kind kind = JsonValue::Kind::kNumber;
  const char* absent = nullptr;  // DeepSpeed's default, where it is not the flag's
};

struct DeepSpeedType {
  const char* name;  // as files write it
  std::vector<DeepSpeedParameter> parameters;
};

// Which of `types` a section is of. Errors: kInvalidArgument where it is of none, or of another.
absl::StatusOr<const DeepSpeedType*> TypeOf(const DeepSpeedSource& source, const std::string& section,
                                            const std::vector<DeepSpeedType>& types);
// Errors: kInvalidArgument for a parameter of another type: of neither the table nor `more`.
absl::Status CheckParameters(const DeepSpeedSource& source, const std::string& section, const DeepSpeedType& type,
                             const std::vector<std::string>& more);
// Sets the flags of the type's table.
absl::Status SetParameters(DeepSpeedSource& source, const std::string& section, const DeepSpeedType& type);

}  // namespace zeroshard::tools

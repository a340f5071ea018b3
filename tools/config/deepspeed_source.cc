#include "zeroshard/tools/config/deepspeed_source.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/tools/config/deepspeed_keys.h"
#include "zeroshard/tools/flags/nearest.h"

namespace zeroshard::tools {
namespace {

using Kind = JsonValue::Kind;

// What DeepSpeed has and this program does not.
constexpr const char* kOtherTypes[] = {"Lamb",    "OneBitAdam", "ZeroOneAdam", "OneBitLamb", "Lion",
                                       "Adagrad", "MuAdam",     "MuAdamW",     "MuSGD",      "LRRangeTest"};

}  // namespace

const JsonValue* DeepSpeedSource::Find(std::string_view path) const {
  const JsonValue* value = &document_.root();
  while (value != nullptr && !path.empty()) {
    const size_t dot = path.find('.');
    value = value->Find(path.substr(0, dot));
    path = dot == std::string_view::npos ? "" : path.substr(dot + 1);
  }
  return value == nullptr || value->kind == Kind::kNull ? nullptr : value;
}

absl::Status DeepSpeedSource::Error(TextPosition at, const std::string& path, const std::string& what) const {
  return absl::InvalidArgumentError(absl::StrCat(document_.Place(at), ": ", path, " ", what));
}

absl::Status DeepSpeedSource::Set(std::string_view flag, const JsonValue& value, const std::string& path, Kind kind) {
  if (IsAuto(value)) return absl::OkStatus();
  if (value.kind == kind) return SetText(flag, value.text, value, path);
  const std::string_view given = Describe(value.kind), wanted = Describe(kind);
  return Error(value, path,
               absl::StrCat("is ", std::string(given), value.text.empty() ? "" : ", \"", value.text,
                            value.text.empty() ? "" : "\"", "; it must be ", std::string(wanted)));
}

absl::Status DeepSpeedSource::SetText(std::string_view flag, const std::string& text, const JsonValue& at,
                                      const std::string& path) {
  return flags_.SetFrom(flag, text, document_.Place(at.position), path);
}

absl::Status DeepSpeedSource::SetAbsent(std::string_view flag, const std::string& text, const std::string& path) {
  if (flags_.WasSet(flag) || Find(path) != nullptr) return absl::OkStatus();
  return flags_.SetFrom(flag, text, document_.name(), path + " (absent)");
}

absl::StatusOr<const DeepSpeedType*> TypeOf(const DeepSpeedSource& source, const std::string& section,
                                            const std::vector<DeepSpeedType>& types) {
  const JsonValue* value = source.Find(section + ".type");
  std::vector<std::string> names;
  for (const DeepSpeedType& type : types) names.emplace_back(type.name);
  if (value == nullptr || value->kind != Kind::kText) {
    return source.Error(*source.Find(section), section + ".type",
                        absl::StrCat("must be one of ", absl::StrJoin(names, ", ")));
  }
  for (const DeepSpeedType& type : types) {
    if (absl::AsciiStrToLower(type.name) == absl::AsciiStrToLower(value->text)) return &type;
  }
  for (const char* other : kOtherTypes) {
    if (absl::AsciiStrToLower(other) != absl::AsciiStrToLower(value->text)) continue;
    return source.Error(*value, section + ".type",
                        absl::StrCat("is ", value->text, ", which DeepSpeed has and this program does not; it has ",
                                     absl::StrJoin(names, ", ")));
  }
  return source.Error(*value, section + ".type",
                      absl::StrCat("is ", value->text, ": must be one of ", absl::StrJoin(names, ", "), "; did you mean ",
                                   Nearest(value->text, names), "?"));
}

absl::Status CheckParameters(const DeepSpeedSource& source, const std::string& section, const DeepSpeedType& type,
                             const std::vector<std::string>& more) {
  std::vector<std::string> known = more;
  for (const DeepSpeedParameter& parameter : type.parameters) known.emplace_back(parameter.key);
  const JsonValue* parameters = source.Find(section + ".params");
  if (parameters == nullptr) return absl::OkStatus();
  for (const JsonMember& member : parameters->members) {
    if (member.value.kind == Kind::kNull || std::find(known.begin(), known.end(), member.key) != known.end()) continue;
    // What is refused or without effect has been dealt with by its own row.
    const std::string path = absl::StrCat(section, ".params.", member.key);
    const DeepSpeedKey* key = FindDeepSpeedKey(path);
    if (key == nullptr || key->treatment != DeepSpeedKey::Treatment::kSpecial) continue;
    return source.Error(member.position, path,
                        absl::StrCat("is no parameter of ", type.name, ", which has ", absl::StrJoin(known, ", ")));
  }
  return absl::OkStatus();
}

absl::Status SetParameters(DeepSpeedSource& source, const std::string& section, const DeepSpeedType& type) {
  for (const DeepSpeedParameter& parameter : type.parameters) {
    const std::string path = absl::StrCat(section, ".params.", parameter.key);
    const JsonValue* value = source.Find(path);
    if (value != nullptr) {
      ZS_RETURN_IF_ERROR(source.Set(parameter.flag, *value, path, parameter.kind));
    } else if (parameter.absent != nullptr) {
      ZS_RETURN_IF_ERROR(source.SetAbsent(parameter.flag, parameter.absent, path));
    }
  }
  return absl::OkStatus();
}

}  // namespace zeroshard::tools

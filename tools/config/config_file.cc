#include "zeroshard/tools/config/config_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/tools/config/deepspeed_config.h"
#include "zeroshard/tools/config/json_document.h"
#include "zeroshard/tools/config/train_config.pb.h"
#include "zeroshard/tools/flags/nearest.h"

namespace zeroshard::tools {
namespace {

using Descriptor = google::protobuf::Descriptor;
using Field = google::protobuf::FieldDescriptor;
using Kind = JsonValue::Kind;

constexpr size_t kLargestFile = 4 << 20;

// Flags that are of a process, and of no configuration.
bool IsOfProcess(std::string_view name) {
  constexpr std::string_view kOfProcess[] = {"config", "save_config", "list_parameters", "step_floor"};
  return std::find(std::begin(kOfProcess), std::end(kOfProcess), name) != std::end(kOfProcess);
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read --config=", path));
  std::string text(kLargestFile + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || (file.fail() && !file.eof())) {
    return absl::InvalidArgumentError(absl::StrCat("cannot read --config=", path, ": it is no regular file"));
  }
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kLargestFile) {
    return absl::InvalidArgumentError(absl::StrCat("--config=", path, " has more than ", kLargestFile, " bytes"));
  }
  return text;
}

bool IsTextProto(std::string_view name) {
  const absl::string_view path(name.data(), name.size());
  return absl::EndsWith(path, ".textproto") || absl::EndsWith(path, ".txtpb") || absl::EndsWith(path, ".pbtxt");
}

Kind KindOf(const Field& field) {
  switch (field.cpp_type()) {
    case Field::CPPTYPE_BOOL:
      return Kind::kBoolean;
    case Field::CPPTYPE_STRING:
      return Kind::kText;
    default:
      return Kind::kNumber;
  }
}

absl::Status UnknownField(const std::string& place, const std::string& name) {
  std::vector<std::string> known;
  const Descriptor& descriptor = *TrainConfig::descriptor();
  for (int i = 0; i < descriptor.field_count(); ++i) known.push_back(descriptor.field(i)->name());
  return absl::InvalidArgumentError(
      absl::StrCat(place, ": there is no setting \"", name, "\"; did you mean \"", Nearest(name, known), "\"?"));
}

absl::Status ApplyOwnValue(const JsonDocument& document, const Field& field, const JsonValue& value, FlagSet& flags) {
  const Kind wanted = KindOf(field);
  const std::string place = document.Place(value.position);
  if (value.kind != wanted) {
    return absl::InvalidArgumentError(absl::StrCat(place, ": ", field.name(), " is ", std::string(Describe(value.kind)),
                                                   "; it must be ", std::string(Describe(wanted))));
  }
  return flags.SetFrom(field.name(), value.text, place, field.name());
}

absl::Status ApplyOwnJson(const JsonDocument& document, const JsonValue& own, FlagSet& flags) {
  if (own.kind != Kind::kObject) {
    return absl::InvalidArgumentError(
        absl::StrCat(document.Place(own.position), ": \"", kOwnSection, "\" must be an object of settings"));
  }
  for (const JsonMember& member : own.members) {
    const Field* field = TrainConfig::descriptor()->FindFieldByName(member.key);
    if (field == nullptr) return UnknownField(document.Place(member.position), member.key);
    if (member.value.kind == Kind::kNull) continue;
    if (!field->is_repeated() || member.value.kind != Kind::kArray) {
      ZS_RETURN_IF_ERROR(ApplyOwnValue(document, *field, member.value, flags));
      continue;
    }
    for (const JsonValue& element : member.value.elements) {
      ZS_RETURN_IF_ERROR(ApplyOwnValue(document, *field, element, flags));
    }
  }
  return absl::OkStatus();
}

// The first error of a text, with its place.
class FirstTextError : public google::protobuf::io::ErrorCollector {
 public:
  explicit FirstTextError(std::string name) : name_(std::move(name)) {}
  void AddError(int line, google::protobuf::io::ColumnNumber column, const std::string& message) override {
    if (words.empty()) words = absl::StrCat(name_, ":", line + 1, ":", column + 1, ": ", message);
  }
  void AddWarning(int line, google::protobuf::io::ColumnNumber column, const std::string& message) override {
    AddError(line, column, message);
  }
  std::string words;

 private:
  std::string name_;
};

std::string TextOf(const TrainConfig& config, const Field& field, int index) {
  std::string text;
  if (field.cpp_type() == Field::CPPTYPE_STRING) {
    const google::protobuf::Reflection& reflection = *TrainConfig::GetReflection();
    return field.is_repeated() ? reflection.GetRepeatedString(config, &field, index) : reflection.GetString(config, &field);
  }
  google::protobuf::TextFormat::PrintFieldValueToString(config, &field, field.is_repeated() ? index : -1, &text);
  return text;
}

absl::Status ApplyTextProto(const std::string& name, std::string_view text, FlagSet& flags) {
  TrainConfig config;
  FirstTextError error(name);
  google::protobuf::TextFormat::ParseInfoTree places;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.WriteLocationsTo(&places);
  if (!parser.ParseFromString(std::string(text), &config)) return absl::InvalidArgumentError(error.words);
  std::vector<const Field*> set;
  TrainConfig::GetReflection()->ListFields(config, &set);
  for (const Field* field : set) {
    const int count = field->is_repeated() ? TrainConfig::GetReflection()->FieldSize(config, field) : 1;
    for (int i = 0; i < count; ++i) {
      const auto at = places.GetLocation(field, field->is_repeated() ? i : -1);
      const std::string place = absl::StrCat(name, ":", at.line + 1, ":", at.column + 1);
      ZS_RETURN_IF_ERROR(flags.SetFrom(field->name(), TextOf(config, *field, i), place, field->name()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ApplyConfigText(const std::string& name, std::string_view text, FlagSet& flags) {
  if (IsTextProto(name)) {
    ZS_RETURN_IF_ERROR(ApplyTextProto(name, text, flags));
    return std::vector<std::string>();
  }
  ZS_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Parse(name, text));
  if (document.root().kind != Kind::kObject) {
    return absl::InvalidArgumentError(
        absl::StrCat(document.Place(document.root().position),
                     ": a configuration is an object: {\"zero_optimization\": {\"stage\": 2}}"));
  }
  const JsonValue* own = document.root().Find(kOwnSection);
  if (own != nullptr) ZS_RETURN_IF_ERROR(ApplyOwnJson(document, *own, flags));
  if (own != nullptr && document.root().members.size() == 1) return std::vector<std::string>();
  return ApplyDeepSpeedConfig(document, flags);
}

absl::StatusOr<std::vector<std::string>> ApplyConfigFile(const std::string& path, const std::string& name, FlagSet& flags) {
  ZS_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return ApplyConfigText(name, text, flags);
}

std::string ConfigJson(const FlagSet& flags) {
  std::string json = absl::StrCat("{\"", kOwnSection, "\": {\n");
  // The train batch that two others make may have given way to them.
  const bool made = flags.WasSet("batch") && flags.WasSet("accumulation");
  bool first = true;
  for (const FlagSetting& s : flags.Settings()) {
    if (made && s.name == "train_batch") continue;
    if (IsOfProcess(s.name) || s.computed || absl::StartsWith(s.group, "RANKS") || absl::StartsWith(s.group, "OUTPUT"))
      continue;
    absl::StrAppend(&json, first ? "" : ",\n", "  \"", s.name, "\": ", s.json);
    first = false;
  }
  return json + "\n}}\n";
}

std::string ConfigTable(const FlagSet& flags) {
  std::string table;
  for (const FlagSetting& s : flags.Settings()) {
    if (s.origin.empty() || IsOfProcess(s.name)) continue;
    absl::StrAppendFormat(&table, "  %-28s %-16s %s\n", s.name, s.json, s.origin == "--" ? "command line" : s.origin);
  }
  return table;
}

}  // namespace zeroshard::tools

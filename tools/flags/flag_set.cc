#include "zeroshard/tools/flags/flag_set.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/tools/flags/nearest.h"

namespace zeroshard::tools {
namespace {

constexpr char kCommandLine[] = "--";

// What --help shows of a default.
std::string Unquoted(const std::string& json) {
  if (json == "[]") return "";
  return json.size() >= 2 && json.front() == '"' ? json.substr(1, json.size() - 2) : json;
}

// Whether `word` stands in the text by itself.
bool HasWord(std::string_view text, std::string_view word) {
  const auto goes_on = [&](size_t at) { return at < text.size() && (absl::ascii_isalnum(text[at]) || text[at] == '_'); };
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    if (!(at > 0 && goes_on(at - 1)) && !goes_on(at + word.size())) return true;
  }
  return false;
}

}  // namespace

FlagSet::FlagSet(std::string program, std::string purpose) : program_(std::move(program)), purpose_(std::move(purpose)) {}

void FlagSet::Add(Flag flag) {
  if (flag.json) flag.default_json = flag.json();
  flags_.push_back(std::move(flag));
}

const FlagSet::Flag* FlagSet::Find(std::string_view name) const {
  for (const Flag& flag : flags_) {
    if (flag.name == name) return &flag;
  }
  return nullptr;
}

FlagSet::Flag* FlagSet::Find(std::string_view name) {
  return const_cast<Flag*>(static_cast<const FlagSet*>(this)->Find(name));
}

bool FlagSet::Has(std::string_view name) const {
  const Flag* flag = Find(name);
  return flag != nullptr && !flag->later;
}

bool FlagSet::WasSet(std::string_view name) const {
  const Flag* flag = Find(name);
  return flag != nullptr && !flag->origin.empty();
}

bool FlagSet::FromCommandLine(std::string_view name) const {
  const Flag* flag = Find(name);
  return flag != nullptr && flag->origin == kCommandLine;
}

std::string FlagSet::Given(std::string_view name) const {
  const Flag* flag = Find(name);
  if (flag == nullptr) return std::string(name);
  return flag->given.empty() ? absl::StrCat("--", flag->name, "=", flag->json()) : flag->given;
}

absl::Status FlagSet::WithPlaces(const absl::Status& status) const {
  if (status.ok()) return status;
  const std::string message(status.message());
  std::vector<std::string> places;
  for (const Flag& flag : flags_) {
    if (flag.origin.empty() || flag.origin == kCommandLine || absl::StrContains(message, flag.given)) continue;
    const std::string value = Unquoted(flag.json());
    const bool names_path = absl::StrContains(value, "/") && absl::StrContains(message, value);
    if (names_path || HasWord(message, flag.name)) places.push_back(flag.given);
  }
  if (places.empty()) return status;
  return absl::Status(status.code(), absl::StrCat(message, " [", absl::StrJoin(places, "; "), "]"));
}

std::string FlagSet::Value(std::string_view name) const {
  const Flag* flag = Find(name);
  return flag == nullptr || !flag->json ? "" : Unquoted(flag->json());
}

std::vector<std::string> FlagSet::Names() const {
  std::vector<std::string> names;
  for (const Flag& flag : flags_) {
    if (!flag.later) names.push_back(flag.name);
  }
  return names;
}

std::vector<FlagSetting> FlagSet::Settings() const {
  std::vector<FlagSetting> settings;
  for (const Flag& flag : flags_) {
    if (flag.later) continue;
    settings.push_back({.name = flag.name,
                        .group = flag.help.group,
                        .json = flag.json(),
                        .origin = flag.origin,
                        .computed = flag.origin.empty() && !flag.help.default_text.empty()});
  }
  return settings;
}

absl::Status FlagSet::SetByCommandLine(Flag& flag, const std::string& value) {
  const std::string naming = absl::StrCat("--", flag.name, "=");
  const absl::Status status = flag.set(value, naming);
  if (!status.ok()) {
    return absl::Status(status.code(), absl::StrCat(flag.later ? absl::StrCat("--", flag.name) : naming + value,
                                                    flag.later ? " is " : ": ", status.message()));
  }
  flag.origin = kCommandLine;
  flag.given = naming + value;
  return absl::OkStatus();
}

absl::Status FlagSet::SetFrom(std::string_view name, const std::string& value, const std::string& place,
                              const std::string& key) {
  Flag* flag = Find(name);
  if (flag == nullptr) return Unknown(name);
  if (flag->origin == kCommandLine) return absl::OkStatus();
  const std::string given = absl::StrCat(place, ": ", key, " = ", value);
  if (!flag->origin.empty() && !flag->repeated) {
    return absl::InvalidArgumentError(absl::StrCat(given, ": the same is set by ", flag->given, "; leave one of them out"));
  }
  const absl::Status status = flag->set(value, "");
  if (!status.ok()) return absl::Status(status.code(), absl::StrCat(given, ": ", status.message()));
  flag->origin = place;
  flag->given = given;
  return absl::OkStatus();
}

absl::Status FlagSet::SetDefault(std::string_view name, const std::string& value) {
  Flag* flag = Find(name);
  if (flag == nullptr) return Unknown(name);
  return flag->origin.empty() ? flag->set(value, "") : absl::OkStatus();
}

absl::Status FlagSet::Unknown(std::string_view name) const {
  return absl::InvalidArgumentError(absl::StrCat("--", std::string(name), " is no flag of ", program_, "; did you mean --",
                                                 Nearest(name, Names()), "? --help lists all"));
}

absl::Status FlagSet::ParseOne(std::string_view argument, int& index, int argc, const char* const* argv) {
  argument.remove_prefix(argument.substr(0, 2) == "--" ? 2 : 1);
  const size_t equals = argument.find('=');
  const std::string_view name = argument.substr(0, equals);
  if (name == "help" || name == "h") {
    help_requested_ = true;
    return absl::OkStatus();
  }
  Flag* flag = Find(name);
  std::string value = equals == std::string_view::npos ? "" : std::string(argument.substr(equals + 1));
  if (flag == nullptr && name.substr(0, 2) == "no" && equals == std::string_view::npos) {
    flag = Find(name.substr(2));
    if (flag != nullptr && !flag->value_name.empty()) flag = nullptr;
    value = "false";
  } else if (flag != nullptr && equals == std::string_view::npos) {
    if (flag->value_name.empty()) {
      value = "true";
    } else if (index + 1 < argc) {
      value = argv[++index];
    } else {
      return absl::InvalidArgumentError(absl::StrCat("--", flag->name, " has no value; for example ", flag->help.example));
    }
  }
  if (flag == nullptr) return Unknown(name);
  return SetByCommandLine(*flag, value);
}

absl::StatusOr<std::vector<std::string>> FlagSet::Parse(int argc, const char* const* argv) {
  std::vector<std::string> positional;
  for (int i = 0; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--") {
      positional.insert(positional.end(), argv + i + 1, argv + argc);
      break;
    }
    if (argument.size() < 2 || argument[0] != '-') {
      positional.emplace_back(argument);
      continue;
    }
    ZS_RETURN_IF_ERROR(ParseOne(argument, i, argc, argv));
  }
  return positional;
}

std::string FlagSet::Help() const {
  std::string text = absl::StrCat(purpose_, "\n\nFlags: --name=value; booleans --name, --noname.\n");
  std::vector<std::string> groups;
  for (const Flag& flag : flags_) {
    if (!flag.later && std::find(groups.begin(), groups.end(), flag.help.group) == groups.end())
      groups.push_back(flag.help.group);
  }
  for (const std::string& group : groups) {
    absl::StrAppend(&text, "\n", group, "\n");
    for (const Flag& flag : flags_) {
      if (flag.later || flag.help.group != group) continue;
      const std::string shown = flag.help.default_text.empty() ? Unquoted(flag.default_json) : flag.help.default_text;
      absl::StrAppend(&text, "  --", flag.name);
      if (!flag.choices.empty()) absl::StrAppend(&text, "=", absl::StrJoin(flag.choices, "|"));
      if (flag.choices.empty() && !flag.value_name.empty()) absl::StrAppend(&text, "=", flag.value_name);
      if (!flag.help.unit.empty()) absl::StrAppend(&text, "  (", flag.help.unit, ")");
      absl::StrAppend(&text, "\n      ", flag.help.text, "\n      default: ", shown.empty() ? "none" : shown,
                      "; example: ", flag.help.example, "\n");
    }
  }
  return text;
}

}  // namespace zeroshard::tools

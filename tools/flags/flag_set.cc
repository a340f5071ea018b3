#include "zeroshard/tools/flags/flag_set.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/flags/marshalling.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/tools/flags/nearest.h"

namespace zeroshard::tools {
namespace {

absl::Status Invalid(const std::string& name, const std::string& value, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat("--", name, "=", value, ": ", why));
}

// A whole number, also as 1e6.
bool ParseInteger(const std::string& text, int64_t* value) {
  if (absl::SimpleAtoi(text, value)) return true;
  double real = 0;
  if (!absl::SimpleAtod(text, &real) || std::floor(real) != real || std::fabs(real) > 0x1p53) return false;
  *value = static_cast<int64_t>(real);
  return true;
}

std::string RangeText(IntegerBounds bounds) {
  if (bounds.most == std::numeric_limits<int64_t>::max()) return absl::StrCat("must be at least ", bounds.least);
  return absl::StrCat("must be between ", bounds.least, " and ", bounds.most);
}

std::string RangeText(RealBounds bounds) {
  std::string text = absl::StrCat("must be ", bounds.without_least ? "above " : "at least ", bounds.least);
  if (std::isfinite(bounds.most)) absl::StrAppend(&text, bounds.without_most ? " and below " : " and at most ", bounds.most);
  return text;
}

bool Within(double v, RealBounds b) {
  return std::isfinite(v) && (b.without_least ? v > b.least : v >= b.least) && (b.without_most ? v < b.most : v <= b.most);
}

}  // namespace

FlagSet::FlagSet(std::string program, std::string purpose) : program_(std::move(program)), purpose_(std::move(purpose)) {}

void FlagSet::Integer(std::string name, int64_t* value, IntegerBounds bounds, FlagHelp help) {
  auto set = [name, value, bounds](const std::string& text) {
    int64_t read = 0;
    if (!ParseInteger(text, &read)) return Invalid(name, text, absl::StrCat("is no whole number; it ", RangeText(bounds)));
    if (read < bounds.least || read > bounds.most) {
      return Invalid(
          name, text,
          absl::StrCat(RangeText(bounds), "; the nearest is --", name, "=", std::clamp(read, bounds.least, bounds.most)));
    }
    *value = read;
    return absl::OkStatus();
  };
  Add({.name = name,
       .value_name = "N",
       .default_value = absl::StrCat(*value),
       .help = std::move(help),
       .choices = {},
       .set = set});
}

void FlagSet::Real(std::string name, double* value, RealBounds bounds, FlagHelp help) {
  auto set = [name, value, bounds](const std::string& text) {
    double read = 0;
    if (!absl::SimpleAtod(text, &read)) return Invalid(name, text, absl::StrCat("is no number; it ", RangeText(bounds)));
    if (!Within(read, bounds)) return Invalid(name, text, RangeText(bounds));
    *value = read;
    return absl::OkStatus();
  };
  Add({.name = name,
       .value_name = "X",
       .default_value = absl::StrCat(*value),
       .help = std::move(help),
       .choices = {},
       .set = set});
}

void FlagSet::Boolean(std::string name, bool* value, FlagHelp help) {
  auto set = [name, value](const std::string& text) {
    std::string error;
    if (absl::ParseFlag(text, value, &error)) return absl::OkStatus();
    return Invalid(name, text, absl::StrCat("must be true or false (or --", name, ", --no", name, ")"));
  };
  Add({.name = name,
       .value_name = "",
       .default_value = *value ? "true" : "false",
       .help = std::move(help),
       .choices = {},
       .set = set});
}

void FlagSet::Text(std::string name, std::string* value, FlagHelp help) {
  auto set = [value](const std::string& text) {
    *value = text;
    return absl::OkStatus();
  };
  Add({.name = name, .value_name = "TEXT", .default_value = *value, .help = std::move(help), .choices = {}, .set = set});
}

void FlagSet::Choice(std::string name, std::string* value, std::vector<std::string> choices, FlagHelp help,
                     std::vector<std::string> later) {
  auto set = [name, value, choices, later](const std::string& text) {
    const std::string built_in = absl::StrJoin(choices, ", ");
    if (std::find(later.begin(), later.end(), text) != later.end()) {
      return absl::UnimplementedError(absl::StrCat("--", name, "=", text, " is not built in yet; built in: ", built_in));
    }
    if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
      return Invalid(name, text,
                     absl::StrCat("must be one of ", built_in, "; did you mean --", name, "=", Nearest(text, choices), "?"));
    }
    *value = text;
    return absl::OkStatus();
  };
  Add({.name = name,
       .value_name = "NAME",
       .default_value = *value,
       .help = std::move(help),
       .choices = choices,
       .set = set});
}

void FlagSet::Later(std::string name) {
  auto set = [name](const std::string&) {
    return absl::UnimplementedError(absl::StrCat("--", name, " is not built in yet: leave it out"));
  };
  Add({.name = name, .value_name = "", .default_value = "", .help = {}, .choices = {}, .set = set, .later = true});
}

FlagSet::Flag* FlagSet::Find(std::string_view name) {
  for (Flag& flag : flags_) {
    if (flag.name == name) return &flag;
  }
  return nullptr;
}

bool FlagSet::WasSet(std::string_view name) const {
  return std::any_of(flags_.begin(), flags_.end(), [&](const Flag& flag) { return flag.name == name && flag.was_set; });
}

absl::Status FlagSet::Unknown(std::string_view name) const {
  std::vector<std::string> names;
  for (const Flag& flag : flags_) {
    if (!flag.later) names.push_back(flag.name);
  }
  return absl::InvalidArgumentError(absl::StrCat("--", std::string(name), " is no flag of ", program_, "; did you mean --",
                                                 Nearest(name, names), "? --help lists all"));
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
  flag->was_set = true;
  return flag->set(value);
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
      const std::string& shown = flag.help.default_text.empty() ? flag.default_value : flag.help.default_text;
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

// The kinds of flags: what each reads, allows and shows.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "absl/flags/marshalling.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "zeroshard/tools/flags/flag_set.h"
#include "zeroshard/tools/flags/nearest.h"

namespace zeroshard::tools {
namespace {

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

// The shortest text that reads back as the same number.
std::string Shortest(double value) {
  char text[40];
  return {text, std::to_chars(text, text + sizeof(text), value).ptr};
}

std::string Quoted(const std::string& text) {
  std::string json = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20) {
      absl::StrAppendFormat(&json, "\\u%04x", byte);
    } else {
      if (c == '"' || c == '\\') json += '\\';
      json += c;
    }
  }
  return json + '"';
}

bool Within(double v, RealBounds b) {
  return std::isfinite(v) && (b.without_least ? v > b.least : v >= b.least) && (b.without_most ? v < b.most : v <= b.most);
}

}  // namespace

void FlagSet::Integer(std::string name, int64_t* value, IntegerBounds bounds, FlagHelp help) {
  auto set = [value, bounds](const std::string& text, const std::string& naming) {
    int64_t read = 0;
    if (!ParseInteger(text, &read)) {
      return absl::InvalidArgumentError(absl::StrCat("is no whole number; it ", RangeText(bounds)));
    }
    if (read < bounds.least || read > bounds.most) {
      return absl::InvalidArgumentError(
          absl::StrCat(RangeText(bounds), "; the nearest is ", naming, std::clamp(read, bounds.least, bounds.most)));
    }
    *value = read;
    return absl::OkStatus();
  };
  Add({.name = std::move(name), .value_name = "N", .help = std::move(help), .choices = {}, .set = set, .json = [value] {
         return absl::StrCat(*value);
       }});
}

void FlagSet::Real(std::string name, double* value, RealBounds bounds, FlagHelp help) {
  auto set = [value, bounds](const std::string& text, const std::string&) {
    double read = 0;
    if (!absl::SimpleAtod(text, &read)) {
      return absl::InvalidArgumentError(absl::StrCat("is no number; it ", RangeText(bounds)));
    }
    if (!Within(read, bounds)) return absl::InvalidArgumentError(RangeText(bounds));
    *value = read;
    return absl::OkStatus();
  };
  Add({.name = std::move(name), .value_name = "X", .help = std::move(help), .choices = {}, .set = set, .json = [value] {
         return Shortest(*value);
       }});
}

void FlagSet::Boolean(std::string name, bool* value, FlagHelp help) {
  auto set = [name, value](const std::string& text, const std::string& naming) {
    std::string error;
    if (absl::ParseFlag(text, value, &error)) return absl::OkStatus();
    if (naming.empty()) return absl::InvalidArgumentError("must be true or false");
    return absl::InvalidArgumentError(absl::StrCat("must be true or false (or --", name, ", --no", name, ")"));
  };
  Add({.name = name, .value_name = "", .help = std::move(help), .choices = {}, .set = set, .json = [value] {
         return std::string(*value ? "true" : "false");
       }});
}

void FlagSet::Text(std::string name, std::string* value, FlagHelp help) {
  auto set = [value](const std::string& text, const std::string&) {
    *value = text;
    return absl::OkStatus();
  };
  Add({.name = std::move(name), .value_name = "TEXT", .help = std::move(help), .choices = {}, .set = set, .json = [value] {
         return Quoted(*value);
       }});
}

void FlagSet::Texts(std::string name, std::vector<std::string>* values, FlagHelp help) {
  auto set = [values](const std::string& text, const std::string&) {
    values->push_back(text);
    return absl::OkStatus();
  };
  auto json = [values] {
    std::vector<std::string> quoted;
    for (const std::string& value : *values) quoted.push_back(Quoted(value));
    return absl::StrCat("[", absl::StrJoin(quoted, ", "), "]");
  };
  Add({.name = std::move(name),
       .value_name = "TEXT",
       .help = std::move(help),
       .choices = {},
       .set = set,
       .json = json,
       .repeated = true});
}

void FlagSet::Choice(std::string name, std::string* value, std::vector<std::string> choices, FlagHelp help,
                     std::vector<std::string> later) {
  auto set = [value, choices, later](const std::string& text, const std::string& naming) {
    const std::string built_in = absl::StrJoin(choices, ", ");
    if (std::find(later.begin(), later.end(), text) != later.end()) {
      return absl::UnimplementedError(absl::StrCat("not built in yet; built in: ", built_in));
    }
    if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("must be one of ", built_in, "; did you mean ", naming, Nearest(text, choices), "?"));
    }
    *value = text;
    return absl::OkStatus();
  };
  Add({.name = std::move(name),
       .value_name = "NAME",
       .help = std::move(help),
       .choices = choices,
       .set = set,
       .json = [value] { return Quoted(*value); }});
}

void FlagSet::Later(std::string name) {
  auto set = [](const std::string&, const std::string&) {
    return absl::UnimplementedError("not built in yet: leave it out");
  };
  Add({.name = std::move(name), .value_name = "", .help = {}, .choices = {}, .set = set, .json = {}, .later = true});
}

}  // namespace zeroshard::tools

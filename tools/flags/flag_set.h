// The flags of a tool: bound to variables, whose values are the defaults; checked when they are read; explained by --help.
//
// Abseil's own parser ends the program with code 1 and knows neither groups nor nearest choices; its value parsing is used.
//
// Flags are --name=value or --name value; booleans --name, --noname, --name=true|false. Whole numbers may be written 1e6. What is
// no flag is a positional argument; "--" ends the flags.
//
// Example:
//   int64_t stage = 2;
//   FlagSet flags("train", "Trains a GPT with ZeRO.");
//   flags.Integer("stage", &stage, {.least = 0, .most = 3}, {.group = "ZeRO", .text = "What is sharded.", .example = "--stage=3"});
//   ZS_ASSIGN_OR_RETURN(std::vector<std::string> rest, flags.Parse(argc, argv));
//   if (flags.help_requested()) std::cout << flags.Help();
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace zeroshard::tools {

struct FlagHelp {
  std::string group;
  std::string text;
  std::string example;
  std::string unit = {};          // "tokens", "seconds"
  std::string default_text = {};  // where the default is not the variable's value
};

struct IntegerBounds {
  int64_t least = std::numeric_limits<int64_t>::min();
  int64_t most = std::numeric_limits<int64_t>::max();
};

struct RealBounds {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool without_least = false;  // the bound itself is not allowed
  bool without_most = false;
};

class FlagSet {
 public:
  FlagSet(std::string program, std::string purpose);

  // The variables outlive the set.
  void Integer(std::string name, int64_t* value, IntegerBounds bounds, FlagHelp help);
  void Real(std::string name, double* value, RealBounds bounds, FlagHelp help);
  void Boolean(std::string name, bool* value, FlagHelp help);
  void Text(std::string name, std::string* value, FlagHelp help);
  // One of `choices`; those of `later` are refused as not built in.
  void Choice(std::string name, std::string* value, std::vector<std::string> choices, FlagHelp help,
              std::vector<std::string> later = {});
  // A flag that is promised, and refused by name until it is there.
  void Later(std::string name);

  // Arguments after the program's name; gives the positional ones.
  // Errors: kInvalidArgument: an unknown flag or choice, with the nearest; a value that cannot be read or is out of range, with what
  // is allowed; kUnimplemented: what is not built in.
  absl::StatusOr<std::vector<std::string>> Parse(int argc, const char* const* argv);

  bool help_requested() const { return help_requested_; }
  // Whether it was given on the command line.
  bool WasSet(std::string_view name) const;
  std::string Help() const;

 private:
  struct Flag {
    std::string name;
    std::string value_name;  // "N", "X", "FILE"; empty: a boolean
    std::string default_value;
    FlagHelp help;
    std::vector<std::string> choices;
    std::function<absl::Status(const std::string& value)> set;
    bool later = false;
    bool was_set = false;
  };
  void Add(Flag flag) { flags_.push_back(std::move(flag)); }
  Flag* Find(std::string_view name);
  absl::Status Unknown(std::string_view name) const;
  absl::Status ParseOne(std::string_view argument, int& index, int argc, const char* const* argv);

  std::string program_;
  std::string purpose_;
  std::vector<Flag> flags_;
  bool help_requested_ = false;
};

}  // namespace zeroshard::tools

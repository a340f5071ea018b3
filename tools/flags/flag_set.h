// The flags of a tool: bound to variables, whose values are the defaults; checked when they are read; explained by --help.
//
// Abseil's own parser ends the program with code 1 and knows neither groups nor nearest choices; its value parsing is used.
//
// Flags are --name=value or --name value; booleans --name, --noname, --name=true|false. Whole numbers may be written 1e6. What is
// no flag is a positional argument; "--" ends the flags. A configuration file sets flags too, each by SetFrom; what the command line
// gave stays.
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

// What a flag came to.
struct FlagSetting {
  std::string name;
  std::string group;
  std::string json;       // its value as JSON
  std::string origin;     // "--", a place in a file ("run.json:3:5"), or empty: nobody gave it
  bool computed = false;  // nobody gave it, and the default depends on other flags
};

class FlagSet {
 public:
  FlagSet(std::string program, std::string purpose);

  // The variables outlive the set.
  void Integer(std::string name, int64_t* value, IntegerBounds bounds, FlagHelp help);
  void Real(std::string name, double* value, RealBounds bounds, FlagHelp help);
  void Boolean(std::string name, bool* value, FlagHelp help);
  void Text(std::string name, std::string* value, FlagHelp help);
  // May be given several times; each adds one.
  void Texts(std::string name, std::vector<std::string>* values, FlagHelp help);
  // One of `choices`; those of `later` are refused as not built in.
  void Choice(std::string name, std::string* value, std::vector<std::string> choices, FlagHelp help,
              std::vector<std::string> later = {});
  // A flag that is promised, and refused by name until it is there.
  void Later(std::string name);

  // Arguments after the program's name; gives the positional ones.
  // Errors: kInvalidArgument: an unknown flag or choice, with the nearest; a value that cannot be read or is out of range, with what
  // is allowed; kUnimplemented: what is not built in.
  absl::StatusOr<std::vector<std::string>> Parse(int argc, const char* const* argv);

  // Sets a flag as a file asks at `place` ("run.json:3:5"), where it calls it `key`; does nothing where the command line gave it.
  // Errors: as Parse, with place and key; kInvalidArgument where two places of a file set one flag.
  absl::Status SetFrom(std::string_view name, const std::string& value, const std::string& place, const std::string& key);
  // Gives a flag that nobody gave a default of this run.
  absl::Status SetDefault(std::string_view name, const std::string& value);

  bool help_requested() const { return help_requested_; }
  // Whether it was given, on the command line or by a file.
  bool WasSet(std::string_view name) const;
  bool FromCommandLine(std::string_view name) const;
  // A flag as its user wrote it: "--lr=3e-4", or "run.json:3:5: optimizer.params.lr = 3e-4".
  std::string Given(std::string_view name) const;
  // An error about settings, with the places of those in a file that it names, or whose path it names: "...
  // [run.json:3:5: zero_optimization.stage = 1]".
  absl::Status WithPlaces(const absl::Status& status) const;
  // What it came to, as it would be written on the command line.
  std::string Value(std::string_view name) const;
  bool Has(std::string_view name) const;
  std::vector<std::string> Names() const;
  std::vector<FlagSetting> Settings() const;
  std::string Help() const;

 private:
  struct Flag {
    std::string name;
    std::string value_name;  // "N", "X", "TEXT"; empty: a boolean
    FlagHelp help;
    std::vector<std::string> choices;
    // Reads a value; a hint in an error writes it after `naming` ("--stage=", or nothing).
    std::function<absl::Status(const std::string& value, const std::string& naming)> set;
    std::function<std::string()> json;  // the variable's value
    bool later = false;
    bool repeated = false;
    std::string default_json = {};
    std::string given = {};   // see Given
    std::string origin = {};  // see FlagSetting
  };
  void Add(Flag flag);
  Flag* Find(std::string_view name);
  const Flag* Find(std::string_view name) const;
  absl::Status Unknown(std::string_view name) const;
  absl::Status ParseOne(std::string_view argument, int& index, int argc, const char* const* argv);
  absl::Status SetByCommandLine(Flag& flag, const std::string& value);

  std::string program_;
  std::string purpose_;
  std::vector<Flag> flags_;
  bool help_requested_ = false;
};

}  // namespace zeroshard::tools

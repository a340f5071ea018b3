// A configuration file, read into flags: DeepSpeed's JSON, or our own.
//
// Which it is: a file whose name ends in .textproto, .txtpb or .pbtxt is our TrainConfig (train_config.proto) in Protobuf's text format.
// Any other is JSON: its key "zeroshard" holds a TrainConfig, its other keys are DeepSpeed's. With no other key the file is ours alone,
// and nothing has DeepSpeed's defaults. TrainConfig has a field for each flag, called as the flag is.
//
//   {"zeroshard": {"layers": 6, "width": 384, "stage": 3}}
//
// Example:
//   ZS_ASSIGN_OR_RETURN(std::vector<std::string> notes, ApplyConfigFile("/home/me/run.json", "run.json", flags));
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/tools/flags/flag_set.h"

namespace zeroshard::tools {

// Sets what the command line, which `flags` has read, did not. Gives lines for people. Errors call the file `name`.
// Errors: kNotFound and the system's for a file; those of ApplyDeepSpeedConfig, with line and column.
absl::StatusOr<std::vector<std::string>> ApplyConfigFile(const std::string& path, const std::string& name, FlagSet& flags);
absl::StatusOr<std::vector<std::string>> ApplyConfigText(const std::string& name, std::string_view text, FlagSet& flags);

// All flags of a run as a file of the second kind: given again, it asks for the same run. Left out: what nobody gave and follows from
// others, and flags of ranks and outputs, which are this job's own.
std::string ConfigJson(const FlagSet& flags);

// A table for people: what was given, and by whom.
std::string ConfigTable(const FlagSet& flags);

}  // namespace zeroshard::tools

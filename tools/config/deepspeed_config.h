// DeepSpeed's configuration, read into flags.
//
// Each key that is honoured sets a flag, so a file's value is checked, explained and recorded as a flag's is, and a flag on the command
// line replaces it. What a file leaves out has DeepSpeed's default where that changes what is computed: stage 0, no clipping, the
// optimizer's and the scheduler's own numbers where those sections are there, overlap_comm on for stage 3 and off below. "auto" is what
// the command line says or this program's default, as Hugging Face's trainer fills it; of the sizes that depend on a model's width w:
// reduce_bucket_size w^2, in stage 3 stage3_prefetch_bucket_size 0.9 w^2 and stage3_param_persistence_threshold 10 w. null is as if
// the key were not there.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(std::vector<std::string> notes, ApplyDeepSpeedConfig(document, flags));
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "zeroshard/tools/config/json_document.h"
#include "zeroshard/tools/flags/flag_set.h"

namespace zeroshard::tools {

// The outermost key that is not DeepSpeed's: an object of our own flags.
inline constexpr char kOwnSection[] = "zeroshard";

// Gives lines for people: what was accepted and changes nothing. `flags` has read the command line.
// Errors: kInvalidArgument: an unknown key with the nearest, a key that DeepSpeed knows and this program does not with the reason, a
// value of the wrong kind or out of range, settings that contradict each other; kUnimplemented; each with line and column.
absl::StatusOr<std::vector<std::string>> ApplyDeepSpeedConfig(const JsonDocument& document, FlagSet& flags);

}  // namespace zeroshard::tools

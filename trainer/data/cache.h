// Files that are made once from others and kept: unpacked text, trained tokenizers, encoded tokens.
//
// They lie in a folder that the user owns, mode 0700. Processes that want the same file at once wait for the one that makes
// it; a file appears whole, under its name, or not at all.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(std::string folder, CacheFolder());
//   ZS_ASSIGN_OR_RETURN(std::string path, Cached(folder, "3f2a.tokens.bin",
//                                                [&](const std::string& partial) { return Encode(text, partial); }));
#pragma once

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace zeroshard::trainer {

// $XDG_CACHE_HOME/zeroshard, else ~/.cache/zeroshard; made if it is not there.
// Errors: kFailedPrecondition if there is no home, or the folder is another user's or open to others; kPermissionDenied and
// the like, with the path.
absl::StatusOr<std::string> CacheFolder();

// folder/name; made, if it is not there, by `make`, which writes the whole file at the path that it is handed.
// Errors: those of `make`; the system's, with the path.
absl::StatusOr<std::string> Cached(const std::string& folder, const std::string& name,
                                   absl::FunctionRef<absl::Status(const std::string&)> make);

// 16 hex digits over the path, size and time of change of a file, and `how` it is to be treated: a name for what is made of
// it. Errors: as InputFile::Open.
absl::StatusOr<std::string> CacheKey(const std::string& path, const std::string& how);

}  // namespace zeroshard::trainer

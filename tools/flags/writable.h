// That a file can be written, found out before hours of work.
//
// Example:
//   ZS_RETURN_IF_ERROR(CheckWritable("metrics", UserPath(metrics_)));
#pragma once

#include <string>

#include "absl/status/status.h"

namespace zeroshard::tools {

// What is in the file stays; where there is none, an empty one is made. An empty path is no file. Errors: the system's, with flag and path.
absl::Status CheckWritable(const std::string& flag, const std::string& path);

}  // namespace zeroshard::tools

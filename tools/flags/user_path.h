// Paths as the user wrote them: relative ones are meant from where the user stands, also where `bazel run` has changed the folder.
//
// Example:
//   UserPath("runs/a.json");        // "/home/me/project/runs/a.json" under bazel run, else "runs/a.json"
#pragma once

#include <string>

namespace zeroshard::tools {

// Empty paths stay empty.
std::string UserPath(const std::string& path);

}  // namespace zeroshard::tools

// Which build of a program this process runs: bits are promised for one build only, so all ranks run the same.
//
// Example:
//   terms.push_back({"the build", BuildId()});       // "b0c7..."
#pragma once

#include <string>

namespace zeroshard::tools {

// The linker's GNU build id of the running program, in hexadecimal digits; "unknown" where it was linked without one. Where our shared
// object is open, its own too: "b0c7... with 91ff...".
std::string BuildId();

}  // namespace zeroshard::tools

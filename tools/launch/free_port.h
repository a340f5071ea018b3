// A TCP port that nobody listened on a moment ago.
//
// Example:
//   setenv("MASTER_PORT", std::to_string(FreePort()).c_str(), 1);
#pragma once

namespace zeroshard::tools {

// On 127.0.0.1, the system's choice; 29500 if it has none. Another process may take it before its user does.
int FreePort();

}  // namespace zeroshard::tools

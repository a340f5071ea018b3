// EndTest: how device/late ends the process at a fault: the reason on stderr, exit code 99.
//
// Example:
//   if (freed) EndTest("fill uses memory of \"moments\", which was dropped");
#pragma once

#include <string>

namespace zeroshard::device {

inline constexpr int kLateExitCode = 99;

// Prints "late device: " and the reason, and ends the process at once, without destructors.
[[noreturn]] void EndTest(const std::string& reason);

}  // namespace zeroshard::device

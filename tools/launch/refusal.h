// How a tool says that it does not start, and why.
//
// Example:
//   if (!plan.ok()) return Refuse(plan.status());
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace zeroshard::tools {

// A status with this payload speaks for itself: its line does not begin with "error: ".
inline constexpr char kPlainPayload[] = "zeroshard/plain";

// What is said of an error: its first line comes last, after the table that its other lines are.
std::string ErrorText(std::string_view begin, std::string_view message);

// Says it on the standard error, in one line and the table that may be before it; gives the exit code.
int Refuse(const absl::Status& status);

}  // namespace zeroshard::tools

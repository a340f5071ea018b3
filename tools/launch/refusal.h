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

// Says it in one line on the standard error; gives the exit code.
int Refuse(const absl::Status& status);

}  // namespace zeroshard::tools

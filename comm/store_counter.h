// How a store keeps a counter among its values: decimal digits, so that Get shows it to people.
//
// Example:
//   CountUp("41", 1).value();        // 42
//   CountUp(std::nullopt, 1).value();   // 1
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace zeroshard::comm {

// The counter `value` (none: 0) plus `delta`.
// Errors: kFailedPrecondition `value` is not a number, or the sum does not fit in 64 bits.
inline absl::StatusOr<int64_t> CountUp(const std::optional<std::string>& value, int64_t delta) {
  int64_t count = 0;
  if (value.has_value() && !absl::SimpleAtoi(*value, &count)) {
    return absl::FailedPreconditionError("store: Add on a key whose value is not a counter");
  }
  if (__builtin_add_overflow(count, delta, &count)) {
    return absl::FailedPreconditionError(absl::StrCat("store: Add of ", delta, " overflows the counter"));
  }
  return count;
}

}  // namespace zeroshard::comm

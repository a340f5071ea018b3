// The secret of a job: who does not show it neither joins the rendezvous, nor reads or writes there.
//
// 32 hexadecimal digits of 128 random bits; a token that a person made (--token_file) may be any 16 to 256 printable bytes.
//
// Example:
//   const std::string token = MakeJobToken().value();
//   SameToken(token, shown);
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace zeroshard::comm {

inline constexpr size_t kLeastTokenBytes = 16;
inline constexpr size_t kMostTokenBytes = 256;

// Errors: kUnavailable the system has no random bytes.
absl::StatusOr<std::string> MakeJobToken();

// Errors: kInvalidArgument too short, too long, not printable. The message does not show it.
absl::Status CheckJobToken(std::string_view token);

// Whether they are equal; takes as long wherever they differ.
bool SameToken(std::string_view ours, std::string_view shown);

}  // namespace zeroshard::comm

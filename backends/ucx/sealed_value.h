// A value that the UCX of one rank makes for that of another: a worker's address, a key of memory. UCX believes every byte of it, and
// follows it wherever it points; so it goes with what made it, its length and a hash, and only what came as it was sent is believed.
//
// Example:
//   store.Set("worker/1", SealValue("address", address));
//   ZS_ASSIGN_OR_RETURN(const std::string address, OpenValue("address", /*rank=*/1, value));
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace zeroshard::backends {

std::string SealValue(std::string_view kind, std::string_view bytes);

// The bytes. Errors: kFailedPrecondition `rank` has another version of UCX, with both; or what came is no such value.
absl::StatusOr<std::string> OpenValue(std::string_view kind, int rank, std::string_view value);

}  // namespace zeroshard::backends

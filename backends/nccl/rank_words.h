// What ranks write of themselves to the Store while they join, and while they take memory: how it is written, and read. What is read is a
// stranger's until it was checked: any bytes.
//
// Errors of all that reads: kFailedPrecondition, in one line that a terminal may show: the rank (as messages call it), what it wrote, and
// what it should have.
//
// Example:
//   ZS_RETURN_IF_ERROR(store.Set("rank/1", FormatRank({.libraries = "NCCL 2.28.9, no cuDNN", .host = "node1/a5f0"})));
//   ZS_ASSIGN_OR_RETURN(const RankWords theirs, ParseRank(/*rank=*/1, value));
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace zeroshard::backends {

struct RankWords {
  std::string libraries;  // as device/library_versions.h writes them: one line of ASCII
  std::string host;       // apart from every other: one line
};
std::string FormatRank(const RankWords& words);
absl::StatusOr<RankWords> ParseRank(int rank, std::string_view value);

// NCCL's, of rank 0: bytes that mean nothing to us, `bytes` of them.
absl::Status CheckUniqueId(std::string_view value, size_t bytes);

// What a rank asks for, and where among the pieces of memory it would take it; piece -1: in none of them.
struct PlaceWords {
  int64_t bytes = 0;
  int64_t piece = -1;
  int64_t offset = 0;

  friend bool operator==(const PlaceWords&, const PlaceWords&) = default;
};
std::string FormatPlace(const PlaceWords& place);
absl::StatusOr<PlaceWords> ParsePlace(int rank, std::string_view value);

// Whether a rank has what all are taking.
std::string FormatYes(bool yes);
absl::StatusOr<bool> ParseYes(int rank, std::string_view value);

}  // namespace zeroshard::backends

// What a collective's arguments must be, checked before anything is sent.
//
// Example:
//   ZS_RETURN_IF_ERROR(CheckOperation(operation, rank, world_size, room));
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "zeroshard/comm/operation.h"

namespace zeroshard::comm {

// Memory of the check, kept from call to call so that it allocates nothing in the end: [first, end) of what is read and written.
struct OverlapRoom {
  std::vector<std::pair<uint64_t, uint64_t>> reads;
  std::vector<std::pair<uint64_t, uint64_t>> writes;
};

// Sets operation.count and the dtypes from its segments.
// Errors: kInvalidArgument, naming the operation, the argument and what it must be: dtypes, element counts, root, null memory with
// elements in it, memory that overlaps but by the in-place rule (communicator.h).
absl::Status CheckOperation(Operation& operation, int rank, int world_size, OverlapRoom& room);

}  // namespace zeroshard::comm

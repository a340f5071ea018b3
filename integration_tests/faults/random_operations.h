// Collectives for ranks of a fault test: the same on every rank for the same seed, a few in flight at once, every number
// checked against the tree over ranks.
//
// Example:
//   ranks->Start(3, timeout, [](auto& rank, auto& report) { return RunOperations(rank, report, {.seed = 7}); });
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "zeroshard/comm/communicator.h"
#include "zeroshard/integration_tests/faults/rank_report.h"

namespace zeroshard::integration_tests {

struct OperationsOptions {
  uint64_t seed = 0;
  int64_t most = int64_t{1} << 40;  // operations; then Finalize
  bool registered = true;           // memory of Communicator::Allocate
  bool finalize = true;
};

// Gives the first error. Counts in `report` what ended well, and what was wrong; every operation that was begun has ended.
absl::Status RunOperations(comm::Communicator& communicator, RankReport& report, const OperationsOptions& options);

}  // namespace zeroshard::integration_tests

// A rank that is late in one group because it waits in another says so, over any transport.
//
// Example:
//   auto board = std::make_shared<WaitBoard>();
//   ExpectALateRankNamesItsOtherGroup(board, [&](int rank) { return Connect(rank, /*world_size=*/3, rank == 1 ? board : nullptr); });
#pragma once

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "zeroshard/comm/transport.h"
#include "zeroshard/comm/wait_board.h"

namespace zeroshard::comm::testing {

// `connect` joins one of three ranks, each on a thread of its own; `middle` is rank 1's board.
void ExpectALateRankNamesItsOtherGroup(std::shared_ptr<WaitBoard> middle,
                                       const std::function<absl::StatusOr<std::unique_ptr<Transport>>(int rank)>& connect);

}  // namespace zeroshard::comm::testing

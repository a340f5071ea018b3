// How ranks come to a ncclComm_t together: through the Store, under a deadline.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(Joined joined, Join(options));
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "zeroshard/backends/nccl/comm_handle.h"
#include "zeroshard/backends/nccl/group_notes.h"
#include "zeroshard/backends/nccl/nccl_communicator.h"
#include "zeroshard/backends/nccl/nccl_thread.h"

namespace zeroshard::backends {

// What a rank has of its group. World size 1: nothing but the stream and the notes.
struct Joined {
  std::unique_ptr<device::Stream> stream;
  std::shared_ptr<NcclThread> thread;  // shared by all communicators of the rank
  std::shared_ptr<CommHandle> handle;
  std::unique_ptr<GroupNotes> notes;
  std::vector<std::string> hosts;  // of each rank, by name and boot
  std::string prefix;              // of the notes, in `store`
  comm::Store* store = nullptr;
};

struct Surroundings {
  int version = 0;             // of the NCCL that is loaded
  std::string interface = {};  // for NCCL_SOCKET_IFNAME; empty: NCCL's choice
};
// What NCCL will find here; `interface` is ours to name, where the user has not set the variable. Changes nothing.
// Errors: kInvalidArgument: no such network interface; a variable that is refused (CheckVariables); an older NCCL than built against.
absl::StatusOr<Surroundings> LookAround(std::string_view interface);

// Collective over options.world_size ranks. Errors: see MakeNcclCommunicator.
absl::StatusOr<Joined> Join(const NcclOptions& options);

struct PartOptions {
  int color = -1;  // the first member's rank in the whole; -1: this rank joins none
  int rank = 0;    // in the part
  int world_size = 0;
  std::span<const int> members;  // ranks of the whole, in order
  uint64_t id = 0;               // counts the whole's splits
  absl::Duration timeout;
};
// Collective over all ranks of `whole`: ncclCommSplit.
absl::StatusOr<Joined> JoinPart(const Joined& whole, const PartOptions& options);

// How many consecutive ranks each host has, where that is one power of two for all of several hosts, each host in one stretch; else 1.
int NodeSize(std::span<const std::string> hosts);

// Errors: kInvalidArgument `loaded` is older than `built`. Both as NCCL_VERSION_CODE.
absl::Status CheckNcclVersion(int loaded, int built);

}  // namespace zeroshard::backends

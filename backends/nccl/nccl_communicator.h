// A Communicator on NCCL: operations are queued on a stream of the highest priority, and end there.
//
// A rank has one thread that calls NCCL (nccl_thread.h), for its communicator and all that are split from it; a communicator has a
// watchdog, which notices ends, deadlines, dead peers and disagreement, and alone aborts. Nothing blocks the caller but a full ring.
//
// Note: How an operation ends. Its Work is done when the device has come past it: whoever waits on the host looks at the stream's event,
// and so does the watchdog. The deadline counts from when the device came to the operation's start. A failed communicator is aborted:
// NCCL's kernels leave, and all that is outstanding gets the first cause; so a host that blocks for a stream or an event behind such a
// kernel, as cudaStreamSynchronize does, goes on too. No more is queued than the device takes ("Note: How much is queued" in pace.h). Where
// NCCL does not come back from the abort within `abort_patience`, the process ends with exit code 4 and the cause on the standard error.
//
// Note: Steps. Operations of steps 0 and 1 (as the device's recorder counts them), and where nobody counts the first 256, are agreed upon
// through the Store before NCCL sees them; after that a hash of each step's operations is compared (group_notes.h).
//
// Example:
//   ZS_ASSIGN_OR_RETURN(std::unique_ptr<comm::Communicator> communicator,
//                       MakeNcclCommunicator({.device = &device, .store = &store, .rank = 0, .world_size = 2}));
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "zeroshard/backends/nccl/nccl_memory.h"
#include "zeroshard/comm/backend_registry.h"
#include "zeroshard/comm/communicator.h"
#include "zeroshard/comm/store.h"

namespace zeroshard::backends {

struct NcclOptions {
  device::Device* device = nullptr;  // device/cuda's; outlives the communicator
  comm::Store* store = nullptr;      // outlives the communicator
  int rank = 0;
  int world_size = 1;
  absl::Duration timeout = absl::Minutes(5);  // of connecting, and of each operation from its start on the device
  comm::Reduction reduction = comm::Reduction::kTree;
  std::string interface = {};                 // for NCCL_SOCKET_IFNAME
  bool share_gpu = false;                     // ranks may share a GPU: one NCCL_HOSTID each
  int64_t scratch_bytes = kNcclScratchBytes;  // of device memory, allocated here
  absl::Duration abort_patience = absl::Seconds(10);
  absl::Duration leave_patience = absl::Seconds(2);  // for the others to drop it too; see watchdog.h
  std::string host = {};                             // tests: taken for this rank's host
};

// Collective over the job's ranks.
// Errors: kInvalidArgument the device is none of device/cuda's; NCCL is older than built against; ranks have unlike libraries
// (device::CheckSameLibraries); the network interface that NCCL_SOCKET_IFNAME names is not there; kDeadlineExceeded, naming the ranks that did not come; kResourceExhausted;
// NCCL's own.
absl::StatusOr<std::unique_ptr<comm::Communicator>> MakeNcclCommunicator(const NcclOptions& options);

}  // namespace zeroshard::backends

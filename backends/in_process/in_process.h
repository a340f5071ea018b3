// Ranks that are threads of one process: a Communicator for each, joined in memory. For tests, and for small machines.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(std::vector<std::unique_ptr<comm::Communicator>> ranks, MakeInProcessGroup({d0.get(), d1.get()}));
//   ... ranks[r] goes to rank r's thread ...
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "zeroshard/backends/in_process/fault_switch.h"
#include "zeroshard/backends/in_process/faults.h"
#include "zeroshard/comm/communicator.h"
#include "zeroshard/comm/host_communicator.h"
#include "zeroshard/device/device.h"

namespace zeroshard::backends {

struct InProcessOptions {
  comm::HostOptions host;
  bool mapped = true;      // peers' memory is read in place; else all goes by messages, as between hosts
  int ranks_per_host = 0;  // as if so many in a row were on a host each; 0: all on one
  Faults faults;
  FaultSwitch* fault_switch = nullptr;  // gets hold of the group
};

// One Communicator a rank: rank r's stands on devices[r], which outlives it. Each is used by, and dropped in, any one thread.
// In CreateCommunicator the backend "in_process" joins ranks that share one Store and have one process.
// Errors: kInvalidArgument no devices, or a null one; those of MakeHostCommunicator.
absl::StatusOr<std::vector<std::unique_ptr<comm::Communicator>>> MakeInProcessGroup(std::span<device::Device* const> devices,
                                                                                    const InProcessOptions& options = {});

}  // namespace zeroshard::backends

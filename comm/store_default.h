// Where the ranks that a launcher started meet, where nobody said (--store).
//
// torchrun and this project's launcher: MASTER_ADDR at MASTER_PORT, or the port after it where torchrun's agent holds that. Slurm: the
// first host of the step's list, a port from the job's and the step's id. mpirun on one host: loopback, a port from Open MPI's job
// id, or from the parent process's id, as MPICH gives none; on several hosts nobody can know. A MASTER_ADDR and MASTER_PORT that
// somebody set go before all these.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(const std::string store, DefaultStore(launch, getppid()));        // "tcp:node1:29500"
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "zeroshard/comm/launch_environment.h"
#include "zeroshard/comm/port_range.h"

namespace zeroshard::comm {

// Ports that are made from an id are of `ports`, where there are any. Errors: kInvalidArgument: what is not set, and the remedy.
absl::StatusOr<std::string> DefaultStore(const LaunchEnvironment& launch, int parent, const PortRange& ports = {});

// The first host of Slurm's list: "node[003-010,12],x1" -> "node003"; empty where there is none.
std::string FirstHost(std::string_view list);

}  // namespace zeroshard::comm

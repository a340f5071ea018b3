// Groups of ranks over UCX for tests: each a thread with a transport of its own, connected as processes are.
//
// Example:
//   testing::Group group({"Ucx", &MakeUcxRanks, [] { return device::MakeCpuDevice(); }}, 3);
#pragma once

#include <memory>
#include <vector>

#include "zeroshard/comm/testing/group.h"

namespace zeroshard::backends {

std::vector<std::unique_ptr<comm::Communicator>> MakeUcxRanks(std::vector<device::Device*> devices,
                                                              const comm::HostOptions& options);

}  // namespace zeroshard::backends

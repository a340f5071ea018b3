// The cores and the memory of the host that are nearest to a GPU: copies between it and memory of another node go over the link between
// the processors, and a thread there is slower to launch.
//
// Example:
//   ZS_RETURN_IF_ERROR(StayNear(FindNearHost(gpu.bus_id)));   // on the rank's thread, before it starts others and touches memory
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace zeroshard::device::cuda {

struct NearHost {
  int node = -1;          // NUMA node; -1: the kernel names none
  std::vector<int> cpus;  // empty: it names none
};

// What the kernel says of a PCI device ("0000:1b:00.0") under `sysfs`; nothing where it says nothing, as in most virtual machines.
NearHost FindNearHost(const std::string& bus_id, const std::string& sysfs = "/sys");

// "0-3,8,10-11". Errors: kInvalidArgument.
absl::StatusOr<std::vector<int>> ParseCpuList(std::string_view text);

// This thread, and those that it starts from now on, run on those cores, of the cores that they may run on now (whoever started the process
// may have chosen), and take new memory from the node while it has some. Where none of the cores is allowed nothing changes.
// Errors: the system's.
absl::Status StayNear(const NearHost& host);

}  // namespace zeroshard::device::cuda

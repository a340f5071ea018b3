// Backends by name: tools and tests pick one, nothing else knows which there are.
//
// Example:
//   // In the backend's source, whose library is linked whole (alwayslink):
//   const bool registered = RegisterBackend("gloo", &MakeGlooCommunicator);
//   // In a tool:
//   ZS_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> communicator,
//                       CreateCommunicator("gloo", {.device = device, .store = store, .rank = rank, .world_size = n}));
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "zeroshard/comm/backend_memory.h"
#include "zeroshard/comm/communicator.h"
#include "zeroshard/comm/port_range.h"
#include "zeroshard/comm/store.h"
#include "zeroshard/device/device.h"

namespace zeroshard::comm {

// Whose sums of floats a backend gives that has sums of its own (nccl); host backends know the tree alone.
enum class Reduction : uint8_t {
  kTree,    // The one tree over ranks, with one rounding (reduce_op.h): the bits of every other backend.
  kNative,  // The library's own: any order, rounded at every hop.
};

struct BackendOptions {
  device::Device* device = nullptr;  // outlives the communicator
  Store* store = nullptr;            // where the ranks meet; outlives the communicator
  int rank = 0;
  int world_size = 1;
  absl::Duration timeout = absl::Minutes(5);  // of connecting, and of each operation
  std::string interface = {};                 // network interface or address to listen on; empty: the backend's choice
  PortRange ports = {};                       // at which host backends listen; none: any
  std::string master_address = {};            // rank 0's host as the others know it; empty: MASTER_ADDR, where that is set
  Reduction reduction = Reduction::kTree;     // the same on every rank
  bool share_gpu = false;                     // ranks may have one GPU between them: slow, for tests
  int64_t scratch_bytes = 0;                  // of device memory, where sums are taken there; 0: the backend's choice
};

using BackendFactory = absl::StatusOr<std::unique_ptr<Communicator>> (*)(const BackendOptions& options);
// Whether what a process finds around it (libraries, network interfaces) lets the backend work: looks at `interface` alone of the options,
// and changes nothing.
using SurroundingsCheck = absl::Status (*)(const BackendOptions& options);
using MemoryFormula = BackendMemory (*)(const MemoryRequest& request);

// Gives true, for a static initialiser. A second factory of one name replaces the first.
bool RegisterBackend(std::string_view name, BackendFactory factory, SurroundingsCheck check = nullptr);

// The same for what its communicators take; also where the backend itself is not linked in, but in a library that is opened later.
bool RegisterMemory(std::string_view name, MemoryFormula formula);

// The names of those that were built in, sorted.
std::vector<std::string> Backends();

// Before any rank is started, in a process that becomes one or in its parent. A backend that is not built in, or that has nothing to look
// at, is in order. Errors: the backend's own, with the remedy.
absl::Status CheckSurroundings(std::string_view name, const BackendOptions& options);

// What a communicator of this backend takes for itself; nothing, where nobody says.
BackendMemory MemoryOf(std::string_view name, const MemoryRequest& request);

// Collective: every rank of the job, with the same world size.
// Errors: kInvalidArgument an unknown name (with the nearest, and the list), a rank outside [0, world_size), no device or store;
// and the backend's own.
absl::StatusOr<std::unique_ptr<Communicator>> CreateCommunicator(std::string_view name, const BackendOptions& options);

}  // namespace zeroshard::comm

// The communicators of the double that were made and are not gone: what an ncclComm_t points to, and the memory registered on each.
//
// Example:
//   ncclResult_t made = MakeComm(place, rank, world_size, &comm);
//   ncclComm& live = LiveCommHere(comm, "ncclAllGather");   // ends the test where it is gone
//   std::unique_ptr<ncclComm> last = TakeComm(comm, "ncclCommDestroy");
#pragma once

#include <nccl.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "zeroshard/backends/nccl/doubles/shared_group.h"

namespace zeroshard::backends::doubles {

// What operations in flight share with the communicator, which may be gone before them.
struct CommState {
  std::shared_ptr<SharedGroup> shared;
  int rank = 0;
  std::atomic<bool> aborted{false};
  std::atomic<int> in_flight{0};
};

struct Registered {
  size_t bytes = 0;
  bool window = false;
  int number = 0;  // of windows, the same on all ranks
};

}  // namespace zeroshard::backends::doubles

// The name that NCCL's header declares.
struct ncclComm {
  std::shared_ptr<zeroshard::backends::doubles::CommState> state;
  // Changed by the thread that calls NCCL, by Register and Deregister alone: others look at all communicators'.
  std::map<const void*, zeroshard::backends::doubles::Registered> registered;
  int windows = 0;  // so far
  int device = 0;   // the current one of the thread that made it
};

namespace zeroshard::backends::doubles {

// Waits for all ranks. ncclRemoteError where the process that made the place has ended.
ncclResult_t MakeComm(const SharedPlace& place, int rank, int world_size, ncclComm_t* made);
// For the call of that name, which ends the test where the communicator is gone.
ncclComm& LiveComm(ncclComm_t comm, const char* call);
// The same; ends the test also where this thread's current device is not the communicator's.
ncclComm& LiveCommHere(ncclComm_t comm, const char* call);
// The same, and it is gone.
std::unique_ptr<ncclComm> TakeComm(ncclComm_t comm, const char* call);

void Register(ncclComm& comm, const void* address, Registered memory);
// Ends the test where nothing is registered there.
void Deregister(ncclComm& comm, const void* address, const char* call);
// Whether a piece of memory begins there that is registered on any communicator.
bool IsRegistered(const void* address);
// On all communicators.
int64_t CountRegistrations();

}  // namespace zeroshard::backends::doubles

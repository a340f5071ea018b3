// What a communicator takes for itself when it is made (scratch, staging), beside what is asked of Communicator::Allocate: known before
// there is one, to the byte, so that memory is found not to suffice before a rank is started.
//
// Example:
//   const BackendMemory memory = MemoryOf("nccl", {.world_size = 8, .opaque = true});  // backend_registry.h
#pragma once

#include <cstdint>

namespace zeroshard::comm {

struct MemoryRequest {
  int world_size = 1;         // of the communicator
  bool opaque = false;        // the host cannot touch the device's memory: host transports stage it
  int64_t scratch_bytes = 0;  // as BackendOptions has it
};

// Of one rank, all in the device's ledger under Use::kCommunication.
struct BackendMemory {
  int64_t device_bytes = 0;  // of the device's own memory
  int64_t host_bytes = 0;    // of Device::AllocateHost
};

}  // namespace zeroshard::comm

// A Communicator over a Transport: the schedules, run on host memory by a thread of the communicator's own.
//
// Operations run in the order of issue, on that thread; one that is issued to be waited for at once and finds nothing in flight
// is run by the caller in Work::Wait or WaitOn. All scratch is allocated when the communicator is made. Where the device's memory
// cannot be touched by the host, it goes through staging memory (Device::AllocateHost) of HostOptions::staging_bytes, a piece at
// a time, ordered by a communication stream.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> communicator,
//                       MakeHostCommunicator(device, std::move(transport), {.timeout = absl::Seconds(30)}));
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "zeroshard/comm/backend_memory.h"
#include "zeroshard/comm/communicator.h"
#include "zeroshard/comm/rank_watch.h"
#include "zeroshard/comm/schedules/run_schedule.h"
#include "zeroshard/comm/transport.h"
#include "zeroshard/device/device.h"

namespace zeroshard::comm {

struct HostOptions {
  absl::Duration timeout = absl::Minutes(5);  // of each operation, from when its `after` events are done
  ScheduleChoice schedules = ScheduleChoice::kBySize;
  int64_t by_host_bytes = kByHostBytes;      // a collective of so many goes by host, where the schedules are those
  int64_t scratch_bytes = int64_t{1} << 20;  // what pieces are received into: fits a core's cache
  int64_t staging_bytes = int64_t{4} << 20;  // only where the host cannot touch the device's memory
  RankWatch* watch = nullptr;   // follows the device's recorder, and is asked who is missing; outlives the communicator
  bool poison_outputs = false;  // tests: outputs hold 0xFF bytes from an operation's start to its end
};

// What MakeHostCommunicator allocates: host memory, on any device.
BackendMemory HostCommunicatorMemory(const MemoryRequest& request, const HostOptions& options = {});

// Errors: kInvalidArgument, naming the option; kResourceExhausted.
absl::StatusOr<std::unique_ptr<Communicator>> MakeHostCommunicator(device::Device& device,
                                                                   std::unique_ptr<Transport> transport,
                                                                   const HostOptions& options = {});

}  // namespace zeroshard::comm

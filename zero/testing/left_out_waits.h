// Leaves out, one after the other, each wait that a device's streams make: a wait that nothing checks is no wait worth having.
//
// Example:
//   ExpectEachWaitIsMissed({.world_size = 2}, [&](comm::Communicator& communicator) {
//     return Train(communicator, units, options, {.steps = 2}).status();
//   });
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "zeroshard/comm/communicator.h"

namespace zeroshard::zero::testing {

struct LeftOutWaits {
  int world_size = 2;
  int fewest = 6;    // waits that there are
  int unneeded = 0;  // of them: what this training has no use for, though another has
};

// Whether the ranks are joined by NCCL's double, where the test links it: its operations end on the device. Else they are joined in
// process, where a host that has waited for an operation itself may make up for a wait.
bool OverNccl();

// Runs `training` on ranks of devices of device/late/test_devices.h, again and again, in processes of their own: rank 0's device without
// one of its waits. Expects the device to end the process at each but those unneeded.
void ExpectEachWaitIsMissed(const LeftOutWaits& options,
                            const std::function<absl::Status(comm::Communicator& communicator)>& training);

}  // namespace zeroshard::zero::testing

// That all ranks multiply by the same algorithms: rank 0's.
//
// Example:
//   ZS_RETURN_IF_ERROR(ShareProductChoices(communicator));   // all products are planned, none has run in a step
#pragma once

#include "absl/status/status.h"
#include "zeroshard/comm/communicator.h"

namespace zeroshard::trainer {

// Collective; does nothing on devices that choose nothing (Device::ProductChoices). Errors: kFailedPrecondition, naming the two ranks, where
// rank 0 has another card, library or model; the communicator's.
absl::Status ShareProductChoices(comm::Communicator& communicator);

}  // namespace zeroshard::trainer

// Whether all ranks were given one model and one set of options: told apart at the start, where a difference can be named, and not
// by a collective that does not fit or, worse, does.
//
// Example:
//   ZS_RETURN_IF_ERROR(CheckAgreement(communicator, layout, options, compute));
#pragma once

#include "absl/status/status.h"
#include "zeroshard/comm/communicator.h"
#include "zeroshard/device/stream.h"
#include "zeroshard/zero/engine_options.h"
#include "zeroshard/zero/layout.h"

namespace zeroshard::zero {

// Collective; waits. Errors: kFailedPrecondition, naming the first rank that differs from this one, and in what; the communicator's.
absl::Status CheckAgreement(comm::Communicator& communicator, const Layout& layout, const EngineOptions& options,
                            device::Stream& stream);

}  // namespace zeroshard::zero

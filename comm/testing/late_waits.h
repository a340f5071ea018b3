// That each wait of a collective's users and of its communicator is needed: a step whose waits are left out one at a time, each caught by
// the clocks of device/late's engine.
#pragma once

#include <functional>
#include <vector>

#include "zeroshard/comm/communicator.h"
#include "zeroshard/device/late/late_options.h"

namespace zeroshard::comm::testing {

// What each of two ranks does: computes, reduces, computes on the result, gathers it, computes again; all ordered by events.
void ReduceComputeGather(Communicator& rank);

// `step` has two ranks do that, the first without the wait `left_out` (null: with all), and gives the first rank's waits.
using StepWithout = std::function<std::vector<device::WaitPoint>(const device::WaitPoint* left_out)>;

// Four waits, and each one that is left out ends the process by the engine's words.
void ExpectEachWaitIsNeeded(const StepWithout& step);

}  // namespace zeroshard::comm::testing

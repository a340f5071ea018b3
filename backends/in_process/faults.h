// Faults that the in-process transport puts between ranks, for tests: the same ones for the same seed.
//
// Example:
//   MakeInProcessGroup(devices, {.faults = {.seed = 7, .max_delay = absl::Microseconds(300)}});      // delay and reordering
//   MakeInProcessGroup(devices, {.faults = {.victim = 2, .fate = Fate::kDeath, .at_send = 40}});
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace zeroshard::backends {

enum class Fate : uint8_t {
  kDeath,   // from its at_send-th message on the rank sends nothing, and the others notice at once, as of a killed process
  kFreeze,  // it stands still, for freeze_for, as a stopped process: nobody notices
};

struct Faults {
  uint64_t seed = 0;
  // Each message arrives up to that much later: those of different peers and channels in another order than they were sent.
  absl::Duration max_delay = absl::ZeroDuration();
  // Share of messages that never arrive, nor any later one to the same rank on the same channel: order is kept.
  double loss = 0;
  // The rank that meets its fate at its at_send-th message (from 0); -1: none.
  int victim = -1;
  Fate fate = Fate::kDeath;
  int64_t at_send = 0;
  absl::Duration freeze_for = absl::InfiniteDuration();
};

}  // namespace zeroshard::backends

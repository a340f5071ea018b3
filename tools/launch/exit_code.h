// Exit codes of the tools: what went wrong, for scripts.
//
// Example:
//   return ExitCodeOf(status, Phase::kRunning);
#pragma once

#include "absl/status/status.h"

namespace zeroshard::tools {

inline constexpr int kExitDone = 0;
inline constexpr int kExitBug = 1;            // of ours
inline constexpr int kExitInput = 2;          // bad flags, configuration, input, device or driver: nothing was started
inline constexpr int kExitTraining = 3;       // non-finite values past the limit
inline constexpr int kExitPeer = 4;           // a rank or a peer was lost, ranks disagree, or an operation timed out
inline constexpr int kExitFile = 5;           // a file could not be written or read during the run
inline constexpr int kExitMemory = 6;         // out of memory
inline constexpr int kExitInterrupted = 130;  // SIGINT
inline constexpr int kExitTerminated = 143;   // SIGTERM

enum class Phase {
  kStarting,    // flags, data, device
  kConnecting,  // ranks find each other
  kRunning,
};

int ExitCodeOf(const absl::Status& status, Phase phase);

}  // namespace zeroshard::tools

// SIGINT and SIGTERM as a wish that a run looks at, and as an order when they come a second time.
//
// Example:
//   CatchInterrupts();
//   options.stop = &InterruptRequested();
//   ...
//   return InterruptExitCode();          // 130 or 143
#pragma once

#include <atomic>

namespace zeroshard::tools {

// From now on a SIGINT or SIGTERM ends the process with its code: before there is a run that could look. Output that nobody reads
// any more does not end it.
void ExitOnInterrupts();
// From now on the first one sets InterruptRequested(); the second ends the process.
void CatchInterrupts();

const std::atomic<bool>& InterruptRequested();

// Of the signal that came; 130 if none did.
int InterruptExitCode();

}  // namespace zeroshard::tools

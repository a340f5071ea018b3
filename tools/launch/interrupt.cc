#include "zeroshard/tools/launch/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include "zeroshard/tools/launch/exit_code.h"

namespace zeroshard::tools {
namespace {

std::atomic<bool> requested{false};
std::atomic<int> code{kExitInterrupted};

void OnSignal(int signal) {
  const int own = signal == SIGTERM ? kExitTerminated : kExitInterrupted;
  if (requested.exchange(true)) _exit(own);
  code.store(own);
}

}  // namespace

void CatchInterrupts() {
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

const std::atomic<bool>& InterruptRequested() { return requested; }

int InterruptExitCode() { return code.load(); }

}  // namespace zeroshard::tools

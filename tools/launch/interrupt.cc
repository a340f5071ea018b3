#include "zeroshard/tools/launch/interrupt.h"

#include <unistd.h>

#include <csignal>

#include "zeroshard/tools/launch/exit_code.h"

namespace zeroshard::tools {
namespace {

std::atomic<bool> requested{false};
std::atomic<int> code{kExitInterrupted};

int CodeOf(int signal) { return signal == SIGTERM ? kExitTerminated : kExitInterrupted; }

void Exit(int signal) { _exit(CodeOf(signal)); }

void Request(int signal) {
  if (requested.exchange(true)) Exit(signal);
  code.store(CodeOf(signal));
}

void Handle(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

void ExitOnInterrupts() {
  Handle(Exit);
  signal(SIGPIPE, SIG_IGN);
}
void CatchInterrupts() { Handle(Request); }

const std::atomic<bool>& InterruptRequested() { return requested; }

int InterruptExitCode() { return code.load(); }

}  // namespace zeroshard::tools

#include "zeroshard/integration_tests/faults/rank_report.h"

#include <ctime>

namespace zeroshard::integration_tests {
namespace {

int64_t ReadMs(clockid_t clock) {
  timespec now = {};
  clock_gettime(clock, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

}  // namespace

int64_t NowMs() { return ReadMs(CLOCK_MONOTONIC); }
int64_t ProcessCpuMs() { return ReadMs(CLOCK_PROCESS_CPUTIME_ID); }

}  // namespace zeroshard::integration_tests

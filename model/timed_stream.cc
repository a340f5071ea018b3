#include "zeroshard/model/timed_stream.h"

#include <ctime>

namespace zeroshard::model {

double ThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void TimedStream::Enqueue(const device::Operation& operation) {
  const double start = ThreadSeconds();
  inner_->Enqueue(operation);
  seconds_[section_ + ": " + operation.name] += ThreadSeconds() - start;
}

}  // namespace zeroshard::model

// Watches a run's steps from outside: time, allocations, bytes on the wire. Itself it allocates nothing while steps go on.
//
// Example:
//   StepWatch watch(communicator, steps);
//   for (...) { watch.Begin(step); ...; watch.End(step); }
//   watch.Report(report);
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "zeroshard/comm/communicator.h"
#include "zeroshard/trainer/allocation_counter.h"
#include "zeroshard/trainer/rank_report.h"

namespace zeroshard::trainer {

class StepWatch {
 public:
  // `steps`: how many are to come.
  StepWatch(comm::Communicator& communicator, int64_t steps);

  void Begin(int64_t step);
  // Seconds since Begin.
  double Seconds() const;
  // Everything that belongs to the step has been done, metrics and progress included, in `seconds`.
  void End(int64_t step, double seconds);
  // Bytes on the wire that are no step's: an evaluation's.
  void LeaveOut(int64_t data_bytes, int64_t control_bytes);

  // Seconds of a step, the median; without the first two steps where there are more.
  double MedianSeconds() const;
  // After all traffic of the last step has ended: allocations, and bytes on the wire a step.
  void Report(RankReport& report) const;

 private:
  using Clock = std::chrono::steady_clock;
  AllocationCounts Allocations() const;

  comm::Communicator& communicator_;
  int64_t steps_;
  int64_t done_ = 0;
  int64_t data_before_;
  int64_t control_before_;
  Clock::time_point begun_;
  AllocationCounts before_;
  AllocationCounts third_ = {kNotMeasured, kNotMeasured};
  AllocationCounts last_ = {kNotMeasured, kNotMeasured};
  int64_t heap_after_third_ = 0;
  int64_t heap_after_last_ = 0;
  std::vector<float> seconds_;  // a ring, full after kKept steps
};

}  // namespace zeroshard::trainer

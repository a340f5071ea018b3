#include "zeroshard/trainer/step_watch.h"

#include <algorithm>

namespace zeroshard::trainer {
namespace {

// Steps whose time is kept for the median: the latest.
constexpr int64_t kKept = 1 << 16;
constexpr int64_t kThird = 2;  // steps count from 0
constexpr int64_t kUnsteady = 2;

}  // namespace

StepWatch::StepWatch(comm::Communicator& communicator, int64_t steps)
    : communicator_(communicator),
      steps_(steps),
      data_before_(communicator.wire().sent_bytes(comm::Traffic::kData)),
      control_before_(communicator.wire().sent_bytes(comm::Traffic::kControl)),
      seconds_(static_cast<size_t>(std::min(steps, kKept))) {}

AllocationCounts StepWatch::Allocations() const {
  AllocationCounts counts = AllocationsOf(&communicator_.device());
  device::Device& device = communicator_.device();
  counts.ours += device.ledger().charges() + device.host().ledger().charges();
  return counts;
}

void StepWatch::Begin(int64_t step) {
  if (step == kThird || step + 1 == steps_) before_ = Allocations();
  begun_ = Clock::now();
}

double StepWatch::Seconds() const { return std::chrono::duration<double>(Clock::now() - begun_).count(); }

void StepWatch::LeaveOut(int64_t data_bytes, int64_t control_bytes) {
  data_before_ += data_bytes;
  control_before_ += control_bytes;
}

void StepWatch::End(int64_t step, double seconds) {
  seconds_[static_cast<size_t>(step % kKept)] = static_cast<float>(seconds);
  done_ = step + 1;
  const AllocationCounts after = Allocations();
  const AllocationCounts here = {after.ours - before_.ours, after.vendor - before_.vendor};
  if (step == kThird) {
    third_ = here;
    heap_after_third_ = LiveHeapBytes();
  }
  if (step + 1 == steps_ && step >= kThird) {
    last_ = here;
    heap_after_last_ = LiveHeapBytes();
  }
}

double StepWatch::MedianSeconds() const {
  const int64_t kept = std::min(done_, kKept);
  const int64_t left_out = done_ > kUnsteady && done_ <= kKept ? kUnsteady : 0;
  std::vector<float> sorted(seconds_.begin() + left_out, seconds_.begin() + kept);
  if (sorted.empty()) return 0;
  std::sort(sorted.begin(), sorted.end());
  const size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (static_cast<double>(sorted[middle - 1]) + sorted[middle]) / 2;
}

void StepWatch::Report(RankReport& report) const {
  const comm::WireLedger& wire = communicator_.wire();
  const int64_t steps = std::max<int64_t>(1, done_);
  report.data_bytes_per_step = (wire.sent_bytes(comm::Traffic::kData) - data_before_) / steps;
  report.control_bytes_per_step = (wire.sent_bytes(comm::Traffic::kControl) - control_before_) / steps;
  if (!CountingAllocations() || last_.ours == kNotMeasured) return;
  report.step_3 = third_.ours;
  report.vendor_step_3 = third_.vendor;
  report.last_step = last_.ours;
  report.vendor_last_step = last_.vendor;
  report.heap_growth_bytes = heap_after_last_ - heap_after_third_;
}

}  // namespace zeroshard::trainer

// The second level of a reduction: across replicas.

#include "zeroshard/device/memory_ledger.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/zero/bucket_reduction.h"

namespace zeroshard::zero {

using device::Array;
using device::DType;

absl::Status BucketReduction::Allocate() {
  if (ranks_->replicas() == nullptr || !HasOutput()) return absl::OkStatus();
  for (int i = 0; i < kEvents; ++i) {
    crossings_.push_back({.summed = communicator_->device().MakeEvent(), .crossed = communicator_->device().MakeEvent()});
  }
  across_.reserve(layout_->sections().size());
  ZS_ASSIGN_OR_RETURN(staging_, ranks_->replicas()->Allocate(staged_elements_ * SizeOf(DType::kFloat32),
                                                             device::Use::kCommunication, "gradients between groups"));
  return absl::OkStatus();
}

comm::CallOptions BucketReduction::BeginCrossing(const comm::CallOptions& options) {
  // A bucket's events were last used kEvents buckets ago. What waited for them came at most two buckets later, and is done when the
  // bucket of kInFlight ago has crossed.
  crossing_[crossed_ % kInFlight].Wait().IgnoreError();
  comm::CallOptions call = options;
  call.wait_at_once = false;
  call.end = crossings_[crossed_ % kEvents].summed.get();
  if (staged_elements_ > 0 && crossed_ >= 2) call.after.back() = crossings_[(crossed_ - 2) % kEvents].crossed.get();
  const Array staging = staging_.array(DType::kFloat32);
  int64_t first = crossed_ % 2 * (staged_elements_ / 2);
  across_.clear();
  for (comm::Segment& segment : segments_) {
    const Array sum = segment.out;
    if (staged_elements_ > 0) {
      segment.out = staging.Slice(first, sum.elements());
      first += sum.elements();
    }
    across_.push_back({.in = segment.out, .out = sum});
  }
  return call;
}

void BucketReduction::Cross(const comm::CallOptions& options) {
  const Crossing& crossing = crossings_[crossed_ % kEvents];
  comm::CallOptions call = options;
  call.after = {crossing.summed.get()};
  call.end = crossing.crossed.get();
  last_across_ = ranks_->replicas()->AllReduce(across_, op_, call);
  crossing_[crossed_ % kInFlight] = last_across_;
  ++crossed_;
}

}  // namespace zeroshard::zero

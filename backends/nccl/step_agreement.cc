#include "zeroshard/backends/nccl/step_agreement.h"

namespace zeroshard::backends {
namespace {

constexpr int64_t kStepsAgreedUpon = 2;
constexpr uint64_t kAgreedUponAtFirst = 256;

}  // namespace

absl::Status StepAgreement::Agree(const comm::OperationHeader& mine, int64_t step, const std::atomic<bool>& stop) {
  if (step != step_) {
    if (step_ >= kStepsAgreedUpon) notes_.NoteStep(step_, hash_);
    step_ = step;
  }
  if (step < 0 ? mine.sequence <= kAgreedUponAtFirst : step < kStepsAgreedUpon) return notes_.Agree(mine, timeout_, stop);
  hash_ = hash_ * 0x9e3779b97f4a7c15 + comm::Digest(mine);  // their order counts
  return absl::OkStatus();
}

}  // namespace zeroshard::backends

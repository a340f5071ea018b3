#include "zeroshard/backends/nccl/step_agreement.h"

namespace zeroshard::backends {
namespace {

constexpr int64_t kStepsAgreedUpon = 2;
constexpr uint64_t kAgreedUponAtFirst = 256;

// Of what all ranks must have called alike.
uint64_t HashOf(const comm::OperationHeader& header, uint64_t hash) {
  for (const int64_t value : {static_cast<int64_t>(header.sequence), header.count, static_cast<int64_t>(header.layout),
                              int64_t{header.root}, int64_t{header.segments}, int64_t{header.kind}, int64_t{header.op},
                              int64_t{header.in_dtype}, int64_t{header.out_dtype}}) {
    hash = (hash ^ static_cast<uint64_t>(value)) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  }
  return hash;
}

}  // namespace

absl::Status StepAgreement::Agree(const comm::OperationHeader& mine, int64_t step, const std::atomic<bool>& stop) {
  if (step != step_) {
    if (step_ >= kStepsAgreedUpon) notes_.NoteStep(step_, hash_);
    step_ = step;
  }
  if (step < 0 ? mine.sequence <= kAgreedUponAtFirst : step < kStepsAgreedUpon) return notes_.Agree(mine, timeout_, stop);
  hash_ = HashOf(mine, hash_);
  return absl::OkStatus();
}

}  // namespace zeroshard::backends

#include "zeroshard/zero/rank_minimum.h"

#include "zeroshard/device/memory_ledger.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::zero {

using device::Array;
using device::DType;

absl::StatusOr<std::unique_ptr<RankMinimum>> RankMinimum::Create(comm::Communicator& communicator, device::Stream& compute) {
  std::unique_ptr<RankMinimum> minimum(new RankMinimum(communicator, compute));
  ZS_ASSIGN_OR_RETURN(minimum->word_,
                      communicator.device().Allocate(kBytes, device::Use::kCommunication, "minimum over ranks"));
  return minimum;
}

RankMinimum::RankMinimum(comm::Communicator& communicator, device::Stream& compute)
    : communicator_(&communicator), compute_(&compute), filled_(communicator.device().MakeEvent()) {}

absl::StatusOr<int64_t> RankMinimum::Of(int64_t value) {
  device::Device& device = communicator_->device();
  const Array word = word_.array(DType::kInt64);
  device.elementwise().Fill(*compute_, word, static_cast<double>(value));
  compute_->Record(*filled_);
  const comm::CallOptions call{
      .after = {filled_.get()}, .wait_at_once = true, .traffic = comm::Traffic::kControl, .label = "minimum over ranks"};
  ZS_RETURN_IF_ERROR(communicator_->AllReduce(word, word, comm::ReduceOp::kMin, call).Wait());
  int64_t least = 0;
  device.CopyToHost(*compute_, word, &least);
  compute_->Synchronize();
  ZS_RETURN_IF_ERROR(device.status());
  return least;
}

absl::StatusOr<bool> RankMinimum::AllGive(int64_t value) {
  ZS_ASSIGN_OR_RETURN(const int64_t least, Of(value));
  ZS_ASSIGN_OR_RETURN(const int64_t negated_most, Of(-value));
  return least == value && negated_most == -value;
}

}  // namespace zeroshard::zero

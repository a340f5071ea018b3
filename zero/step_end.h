// The end of a step: from reduced gradients to new parameters, on the part that this rank's optimizer works on.
//
//   norm over the rank's part -> summed over ranks -> scalars (norm, clip factor, learning rate, skip) -> optimizer
//
// With the norm travels one word more: the sum of all ranks' GradientStore::signature, by which Result knows whether they reduced
// the same things. (Sizes that differ are seen by the communicator at once; units of one size are not.)
//
// All of it is queued; the host's copy of the scalars comes after. The norm is a sum of integers over blocks of 64 elements that
// start with their parameter, so it has the same bits in every stage, partition and world (device/exact_sum.h); padding is in no
// block. Where several ranks hold the same part (rank_groups.h), one of them adds it.
//
// Example:
//   ZS_RETURN_IF_ERROR(end->Run(gradients, parameters, std::nullopt));
//   ZS_ASSIGN_OR_RETURN(device::StepScalars scalars, end->Result());
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/comm/communicator.h"
#include "zeroshard/device/buffer.h"
#include "zeroshard/device/device.h"
#include "zeroshard/device/step_scalars.h"
#include "zeroshard/zero/engine_options.h"
#include "zeroshard/zero/gradient_store.h"
#include "zeroshard/zero/layout.h"
#include "zeroshard/zero/parameter_store.h"
#include "zeroshard/zero/rank_groups.h"
#include "zeroshard/zero/update_pass.h"

namespace zeroshard::zero {

class StepEnd {
 public:
  // Allocates the update's state and what the scalars need. All references outlive it; `options` are valid.
  static absl::StatusOr<std::unique_ptr<StepEnd>> Create(const RankGroups& ranks, const Layout& layout,
                                                         const EngineOptions& options, device::Stream& compute);

  // Collective. `gradients` is finished, `parameters` between BeginUpdate and EndUpdate. Where the communicator has failed, no
  // parameter is written.
  absl::Status Run(const GradientStore& gradients, ParameterStore& parameters, std::optional<double> learning_rate);

  // The last Run's; waits for it. Errors: kFailedPrecondition before any, and where ranks ran the backward of different units: then
  // the communicator is aborted, since what they hold is of no use.
  absl::StatusOr<device::StepScalars> Result();

  UpdatePass& update() { return *update_; }
  // What the next step's loss is multiplied by, [1] fp32, written on the compute stream by Run.
  device::Array loss_scale() const;
  // What stored gradients were multiplied by: those of the step that is under way, or (`ended`) those of the last Run. Waits.
  double StoredLossScale(bool ended);

 private:
  StepEnd(const RankGroups& ranks, const Layout& layout, const EngineOptions& options, device::Stream& compute);
  absl::Status Allocate();
  absl::Status SumSquares(const GradientStore& gradients);
  void SumOverRanks();
  void CopyToHost();

  const RankGroups* ranks_;
  comm::Communicator* communicator_;  // of all ranks
  const Layout* layout_;
  const EngineOptions* options_;
  device::Stream* compute_;
  device::StepRule rule_;
  std::unique_ptr<UpdatePass> update_;
  device::Buffer sum_;      // [kExactSumWords] int64, then one for the signatures
  device::Buffer scalars_;  // one StepScalars
  device::Buffer host_;     // the host's copy of it, then of the signatures' sum
  uint32_t signature_ = 0;  // this rank's, of the last Run
  std::unique_ptr<device::Event> summed_;
  std::unique_ptr<device::Event> copied_;
  bool ran_ = false;
};

}  // namespace zeroshard::zero

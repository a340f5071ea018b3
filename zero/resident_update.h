// The update of a step with masters and moments in device memory.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(std::unique_ptr<UpdatePass> pass, ResidentUpdate::Create(device, layout, options, rank, compute));
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/device/device.h"
#include "zeroshard/device/stream.h"
#include "zeroshard/optim/optimizer.h"
#include "zeroshard/zero/engine_options.h"
#include "zeroshard/zero/master_weights.h"
#include "zeroshard/zero/parts.h"
#include "zeroshard/zero/update_pass.h"

namespace zeroshard::zero {

class ResidentUpdate final : public UpdatePass {
 public:
  // Allocates masters and the optimizer's state, zeros. All references outlive it; `options` are valid.
  static absl::StatusOr<std::unique_ptr<UpdatePass>> Create(device::Device& device, const Layout& layout,
                                                            const EngineOptions& options, int rank, device::Stream& compute);

  absl::Status AddSquares(const GradientStore& gradients, device::InOut sum) override;
  absl::Status Apply(const GradientStore& gradients, ParameterStore& parameters, device::In scalars) override;
  void SetFrozen(int parameter, bool frozen) override;
  std::span<const std::string_view> states() const override { return names_; }
  absl::Status ReadState(int state, int section, Range part, device::Out to) override;
  absl::Status WriteState(int state, int section, Range part, device::In from) override;

 private:
  ResidentUpdate(const Layout& layout, const EngineOptions& options, int rank, device::Stream& compute);
  device::Array StateOf(int state, int section, Range part) const;

  const Layout* layout_;
  const EngineOptions* options_;
  int rank_;
  device::Stream* compute_;
  std::vector<Part> parts_;
  const std::vector<std::span<const Part>> sections_;  // parts_
  std::unique_ptr<MasterWeights> masters_;             // null where parameters are fp32
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::vector<std::string_view> names_;
};

}  // namespace zeroshard::zero

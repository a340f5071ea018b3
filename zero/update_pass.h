// The update of a step: what holds masters and moments of this rank's part, and runs the optimizer over it.
//
// StepEnd drives it: AddSquares (the norm), then, when the ranks' sums and the step's scalars are there, Apply. Both are queued on
// the compute stream and ordered by events; no one waits on the host. ResidentUpdate keeps all state in device memory.
//
// Note: Plugging in another home for the state. An update that keeps masters and moments (and the gradients of the part) elsewhere
// derives from this, and is made in MakeUpdatePass (update_passes.h) where EngineOptions ask for it. It gets the reduced gradients as
// GradientStore::Held (device memory, whole section's part of the rank) and the scalars as one StepScalars in device memory; it
// writes the new weights into ParameterStore::Held, rounded once where parameters have two bytes. In between it may copy to its
// own memory on streams of its own, sub-group by sub-group, as long as Apply ends with the compute stream ordered after the last
// write of a parameter (and after the last read of a gradient). Names and parts are those of PartsOf, whatever the home; sums and
// passes are the same kernels in the same order of elements, so the bits are the same.
//
// Example:
//   ZS_RETURN_IF_ERROR(pass->AddSquares(gradients, sum));
//   ... sum over ranks, DeriveScalars ...
//   ZS_RETURN_IF_ERROR(pass->Apply(gradients, parameters, scalars));
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "zeroshard/device/array.h"
#include "zeroshard/zero/gradient_store.h"
#include "zeroshard/zero/layout.h"
#include "zeroshard/zero/parameter_store.h"

namespace zeroshard::zero {

// The name of the fp32 masters among states(); the others are the optimizer's ("exp_avg", ...).
inline constexpr std::string_view kMasterWeightsName = "master_weights";

class UpdatePass {
 public:
  virtual ~UpdatePass() = default;

  // sum += the squares of this rank's part of the gradient, by AddPowers over each Part. sum: [kExactSumWords] int64.
  virtual absl::Status AddSquares(const GradientStore& gradients, device::InOut sum) = 0;
  // Queues the optimizer over this rank's part; where the scalars say skip, nothing is written.
  // Errors: the home's (a file that cannot be read, ...).
  virtual absl::Status Apply(const GradientStore& gradients, ParameterStore& parameters, device::In scalars) = 0;

  // A frozen parameter is in no norm, and neither updated nor decayed. Between steps.
  virtual void SetFrozen(int parameter, bool frozen) = 0;

  // What is kept for each element, fp32: masters first where there are any, then the optimizer's state.
  virtual std::span<const std::string_view> states() const = 0;
  // Copies a part of what the rank holds of a section's state, queued on compute. `part` is within HoldingOf; to, from: [count] fp32.
  virtual absl::Status ReadState(int state, int section, Range part, device::Out to) = 0;
  virtual absl::Status WriteState(int state, int section, Range part, device::In from) = 0;

  // Of states(); nothing if it keeps none of that name.
  std::optional<int> Find(std::string_view name) const {
    for (size_t i = 0; i < states().size(); ++i) {
      if (states()[i] == name) return static_cast<int>(i);
    }
    return std::nullopt;
  }
};

}  // namespace zeroshard::zero

// fp32 masters of two-byte parameters: what the optimizer moves, and from which it writes the parameters back, rounded once to
// nearest even. Of the whole model in stage 0, of this rank's part in the others; none where parameters are fp32: those are their own.
//
// Micikevicius et al., "Mixed Precision Training", section 3.1.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(auto masters, MasterWeights::Create(device, layout, options, rank));
//   optimizer.Apply(compute, {.weights = masters->Held(section), ..., .write_back = parameters.Held(section)});
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "zeroshard/device/array.h"
#include "zeroshard/device/buffer.h"
#include "zeroshard/device/device.h"
#include "zeroshard/zero/engine_options.h"
#include "zeroshard/zero/layout.h"

namespace zeroshard::zero {

class MasterWeights {
 public:
  // Zeros, filed under Use::kMasterWeights. All references outlive it. Errors: kResourceExhausted.
  static absl::StatusOr<std::unique_ptr<MasterWeights>> Create(device::Device& device, const Layout& layout,
                                                               const EngineOptions& options, int rank);

  // This rank's masters of a trainable section, fp32, [elements of its HoldingOf].
  device::Array Held(int section) const;

 private:
  MasterWeights(const Layout& layout, int stage, int rank) : layout_(&layout), stage_(stage), rank_(rank) {}

  const Layout* layout_;
  int stage_;
  int rank_;
  device::Buffer buffer_;
};

}  // namespace zeroshard::zero

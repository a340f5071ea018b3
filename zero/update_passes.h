// Which update a run has: by where EngineOptions keep the optimizer's state.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(std::unique_ptr<UpdatePass> pass, MakeUpdatePass(device, layout, options, rank, compute));
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "zeroshard/device/device.h"
#include "zeroshard/device/stream.h"
#include "zeroshard/zero/engine_options.h"
#include "zeroshard/zero/layout.h"
#include "zeroshard/zero/update_pass.h"

namespace zeroshard::zero {

// Allocates its state. All references outlive it; `options` are valid. Errors: kResourceExhausted; those of the state's home.
absl::StatusOr<std::unique_ptr<UpdatePass>> MakeUpdatePass(device::Device& device, const Layout& layout,
                                                           const EngineOptions& options, int rank, device::Stream& compute);

}  // namespace zeroshard::zero

// Memory for what a rank owns of a model: such that peers reach it directly (Communicator::Allocate) where every rank owns as much.
// In Partition::kTensor they do not, and Communicator::Allocate wants the same size on all ranks: there it is the device's own.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(resident_, AllocateOwned(communicator, options, bytes, device::Use::kGradients, "gradients"));
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "zeroshard/comm/communicator.h"
#include "zeroshard/device/buffer.h"
#include "zeroshard/device/device.h"
#include "zeroshard/device/memory_ledger.h"
#include "zeroshard/zero/engine_options.h"

namespace zeroshard::zero {

// Collective. Errors: kResourceExhausted; the communicator's.
inline absl::StatusOr<device::Buffer> AllocateOwned(comm::Communicator& communicator, const EngineOptions& options,
                                                    int64_t bytes, device::Use use, std::string_view what) {
  if (options.partition == Partition::kFlat) return communicator.Allocate(bytes, use, what);
  return communicator.device().Allocate(bytes, use, what);
}

}  // namespace zeroshard::zero

#include "zeroshard/zero/update_passes.h"

#include "zeroshard/zero/offload/offloaded_update.h"
#include "zeroshard/zero/resident_update.h"

namespace zeroshard::zero {

absl::StatusOr<std::unique_ptr<UpdatePass>> MakeUpdatePass(device::Device& device, const Layout& layout,
                                                           const EngineOptions& options, int rank, device::Stream& compute) {
  if (options.offload_optimizer.target != OffloadTarget::kNone) {
    return OffloadedUpdate::Create(device, layout, options, rank, compute);
  }
  return ResidentUpdate::Create(device, layout, options, rank, compute);
}

}  // namespace zeroshard::zero

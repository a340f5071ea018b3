#include "zeroshard/zero/master_weights.h"

#include "zeroshard/device/memory_ledger.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/zero/holding.h"

namespace zeroshard::zero {

using device::DType;

absl::StatusOr<std::unique_ptr<MasterWeights>> MasterWeights::Create(device::Device& device, const Layout& layout,
                                                                     const EngineOptions& options, int rank) {
  std::unique_ptr<MasterWeights> masters(new MasterWeights(layout, options.stage, rank));
  const int64_t bytes = StateElements(layout, options.stage, rank) * SizeOf(DType::kFloat32);
  ZS_ASSIGN_OR_RETURN(masters->buffer_, device.Allocate(bytes, device::Use::kMasterWeights, "master weights"));
  return masters;
}

device::Array MasterWeights::Held(int section) const {
  const Holding holding = HoldingOf(*layout_, stage_, rank_, section);
  return buffer_.array(DType::kFloat32).Slice(holding.state_first, holding.range.count);
}

}  // namespace zeroshard::zero

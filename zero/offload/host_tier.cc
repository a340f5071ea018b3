// StateTier in host memory: everything is always there.

#include <utility>

#include "zeroshard/device/buffer.h"
#include "zeroshard/device/memory_ledger.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/zero/offload/state_tier.h"

namespace zeroshard::zero {
namespace {

using device::Array;
using device::DType;

class HostTier final : public StateTier {
 public:
  explicit HostTier(const OffloadPlan& plan) : plan_(plan) {}

  absl::Status Allocate(device::Device& host, int masters) {
    const int64_t bytes = plan_.offloaded() * SizeOf(DType::kFloat32);
    ZS_ASSIGN_OR_RETURN(masters_, host.Allocate(masters * bytes, device::Use::kMasterWeights, "offloaded master weights"));
    ZS_ASSIGN_OR_RETURN(moments_,
                        host.Allocate((plan_.states - masters) * bytes, device::Use::kMoments, "offloaded moments"));
    return absl::OkStatus();
  }

  absl::Status Fetch(int64_t /*group*/) override { return absl::OkStatus(); }
  absl::Status Await(int64_t /*group*/) override { return absl::OkStatus(); }
  void Store(int64_t /*group*/) override {}
  Array Of(int state, int64_t group) const override { return Part(state, plan_.Group(group)); }

  absl::StatusOr<Array> Open(int state, Range range) override { return Part(state, range); }
  absl::Status Close(bool /*written*/) override { return absl::OkStatus(); }

 private:
  Array Part(int state, Range range) const {
    const int masters = static_cast<int>(masters_.bytes() / (plan_.offloaded() * SizeOf(DType::kFloat32)));
    const Array all = (state < masters ? masters_ : moments_).array(DType::kFloat32);
    const int64_t begin = (state < masters ? state : state - masters) * plan_.offloaded();
    return all.Slice(begin + range.first - plan_.first, range.count);
  }

  const OffloadPlan plan_;
  device::Buffer masters_;
  device::Buffer moments_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<StateTier>> MakeHostTier(device::Device& host, const OffloadPlan& plan, int masters) {
  auto tier = std::make_unique<HostTier>(plan);
  ZS_RETURN_IF_ERROR(tier->Allocate(host, masters));
  return tier;
}

}  // namespace zeroshard::zero

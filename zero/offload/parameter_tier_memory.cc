// How a ParameterTier is made: its memory, or its file and what lies where in it.

#include "zeroshard/device/memory_ledger.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/zero/offload/parameter_tier.h"

namespace zeroshard::zero {

using device::DType;
using device::Use;

namespace {

constexpr int64_t kHalfBytes = kBringBytes + 2 * kFileAlignmentBytes;
static_assert(kNamedElements * SizeOf(DType::kFloat32) + 2 * kFileAlignmentBytes <= kHalfBytes);

// The file: the sub-groups' parameters, whole ones; then the frozen ones.
int64_t GroupsBytes(const OffloadPlan& plan, DType dtype) { return plan.groups * plan.group_elements * SizeOf(dtype); }

}  // namespace

int64_t ParameterStagingBytes(const EngineOptions& options) {
  return options.offload_parameters.target == OffloadTarget::kFile ? 2 * kHalfBytes
                                                                   : 2 * kNamedElements * SizeOf(DType::kFloat32);
}

int64_t ParameterFileBytes(const Layout& layout, const EngineOptions& options, int rank) {
  if (options.offload_parameters.target != OffloadTarget::kFile || !ShardsParameters(options.stage)) return 0;
  const int64_t frozen = layout.OwnedTotal(rank) - layout.OwnedTrainable(rank);
  return RoundUp(GroupsBytes(OffloadPlanOf(layout, options, rank), options.dtype) + frozen * SizeOf(options.dtype),
                 kFileAlignmentBytes);
}

absl::StatusOr<std::unique_ptr<ParameterTier>> ParameterTier::Create(device::Device& device, const Layout& layout,
                                                                     const EngineOptions& options, int rank) {
  std::unique_ptr<ParameterTier> tier(new ParameterTier(device, layout, options, rank));
  ZS_RETURN_IF_ERROR(tier->Allocate(options));
  if (options.offload_parameters.target != OffloadTarget::kFile) return tier;
  ZS_ASSIGN_OR_RETURN(tier->file_, StateFile::Create({.folder = options.offload_parameters.folder,
                                                      .bytes = ParameterFileBytes(layout, options, rank),
                                                      .owner = &device}));
  ZS_ASSIGN_OR_RETURN(tier->thread_, HostThread::Create(&device));
  return tier;
}

ParameterTier::ParameterTier(device::Device& device, const Layout& layout, const EngineOptions& options, int rank)
    : device_(&device),
      host_(&device.host()),
      plan_(OffloadPlanOf(layout, options, rank)),
      dtype_(options.dtype),
      trainable_(layout.OwnedTrainable(rank)),
      elements_(layout.OwnedTotal(rank)),
      sent_{device.MakeEvent(), device.MakeEvent()},
      up_(device.MakeStream(device::StreamKind::kCopyUp)),
      cores_(host_->MakeStream(device::StreamKind::kCompute)) {}

absl::Status ParameterTier::Allocate(const EngineOptions& options) {
  ZS_ASSIGN_OR_RETURN(staging_, host_->Allocate(ParameterStagingBytes(options), Use::kCommunication,
                                                "parameters on their way from the host"));
  if (options.offload_parameters.target != OffloadTarget::kFile) {
    ZS_ASSIGN_OR_RETURN(memory_, host_->Allocate(elements_ * SizeOf(dtype_), Use::kParameters, "offloaded parameters"));
    return absl::OkStatus();
  }
  buffers_.resize(plan_.buffers);
  for (Buffer& buffer : buffers_) {
    ZS_ASSIGN_OR_RETURN(buffer.memory, host_->Allocate(plan_.group_elements * SizeOf(dtype_), Use::kCommunication,
                                                       "sub-groups of offloaded parameters"));
  }
  return absl::OkStatus();
}

int64_t ParameterTier::OffsetOf(int64_t element) const {
  if (element < trainable_) return element * SizeOf(dtype_);
  return GroupsBytes(plan_, dtype_) + (element - trainable_) * SizeOf(dtype_);
}

ParameterTier::Pages ParameterTier::PagesOf(Range range) const {
  const int64_t begin = OffsetOf(range.first);
  Pages pages;
  pages.offset = begin / kFileAlignmentBytes * kFileAlignmentBytes;
  pages.bytes = RoundUp(begin + range.count * SizeOf(dtype_), kFileAlignmentBytes) - pages.offset;
  pages.skipped = begin - pages.offset;
  return pages;
}

std::byte* ParameterTier::Staging(int half) const {
  return HostBytes(staging_.array(DType::kUint8)) + half * (staging_.bytes() / 2);
}

}  // namespace zeroshard::zero

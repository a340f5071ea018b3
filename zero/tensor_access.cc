#include "zeroshard/zero/tensor_access.h"

#include <algorithm>

#include "zeroshard/device/memory_ledger.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/zero/holding.h"

namespace zeroshard::zero {

using device::Array;
using device::DType;

int64_t StagingElements(const Layout& layout) {
  int64_t largest = 0;
  for (const Parameter& parameter : layout.parameters()) largest = std::max(largest, parameter.elements);
  return std::min(kStagingElements, largest);
}

absl::StatusOr<std::unique_ptr<TensorAccess>> TensorAccess::Create(const RankGroups& ranks, const Layout& layout,
                                                                   const EngineOptions& options, device::Stream& compute) {
  std::unique_ptr<TensorAccess> access(new TensorAccess(ranks, layout, options, compute));
  ZS_ASSIGN_OR_RETURN(access->staging_, ranks.all().Allocate(StagingElements(layout) * SizeOf(DType::kFloat32),
                                                             device::Use::kCommunication, "staging of tensors"));
  return access;
}

TensorAccess::TensorAccess(const RankGroups& ranks, const Layout& layout, const EngineOptions& options,
                           device::Stream& compute)
    : all_(&ranks.all()),
      shard_(&ranks.shard()),
      layout_(&layout),
      options_(&options),
      compute_(&compute),
      ready_(ranks.all().device().MakeEvent()) {}

comm::CallOptions TensorAccess::Call(std::string_view name) {
  compute_->Record(*ready_);
  return {.after = {ready_.get()}, .wait_at_once = true, .traffic = comm::Traffic::kControl, .label = name};
}

absl::Status TensorAccess::Read(int parameter, Source source, double scale, std::span<float> values) {
  if (layout_->parameters()[parameter].elements == 0) return all_->status();
  const absl::Status queued = QueueRead(parameter, source, values);
  compute_->Synchronize();  // `values` is the caller's again, however it went.
  ZS_RETURN_IF_ERROR(queued);
  ZS_RETURN_IF_ERROR(all_->status());
  if (scale != 1.0) {
    for (float& value : values) value = static_cast<float>(value * scale);
  }
  return all_->device().status();
}

absl::Status TensorAccess::QueueRead(int parameter, Source source, std::span<float> values) {
  const Parameter& p = layout_->parameters()[parameter];
  const int owners = ShardsOptimizer(options_->stage) ? layout_->world_size() : 1;
  for (int owner = 0; owner < owners; ++owner) {
    const Range owned = HoldingOf(*layout_, options_->stage, owner, p.section).range;
    const Range part = Intersect(p.range(), owned);
    for (int64_t done = 0; done < part.count; done += kStagingElements) {
      const int64_t count = std::min(part.count - done, kStagingElements);
      const Array staging = staging_.array(DType::kFloat32).Slice(0, count);
      if (owners == 1 || owner == shard_->rank()) {
        ZS_RETURN_IF_ERROR(source(p.section, {part.first - owned.first + done, count}, staging));
      }
      if (owners > 1) shard_->Broadcast(staging, staging, owner, Call(p.spec.name)).WaitOn(*compute_);
      all_->device().CopyToHost(*compute_, staging, values.data() + (part.first - p.first + done));
    }
  }
  return absl::OkStatus();
}

absl::Status TensorAccess::Write(int parameter, Sink sink, double scale, std::span<const float> values) {
  const absl::Status queued = QueueWrite(parameter, sink, scale, values);
  compute_->Synchronize();
  ZS_RETURN_IF_ERROR(queued);
  ZS_RETURN_IF_ERROR(all_->status());
  return all_->device().status();
}

absl::Status TensorAccess::QueueWrite(int parameter, Sink sink, double scale, std::span<const float> values) {
  const Parameter& p = layout_->parameters()[parameter];
  device::Device& device = all_->device();
  for (int64_t done = 0; done < p.elements; done += kStagingElements) {
    const Range piece{p.first + done, std::min(p.elements - done, kStagingElements)};
    const Array staging = staging_.array(DType::kFloat32).Slice(0, piece.count);
    if (all_->rank() == 0) {
      device.CopyFromHost(*compute_, values.data() + done, staging);
      if (scale != 1.0) device.elementwise().Scale(*compute_, staging, scale);
    }
    all_->Broadcast(staging, staging, 0, Call(p.spec.name)).WaitOn(*compute_);
    ZS_RETURN_IF_ERROR(sink(piece, staging));
  }
  return absl::OkStatus();
}

}  // namespace zeroshard::zero

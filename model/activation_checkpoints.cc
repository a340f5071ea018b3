#include "zeroshard/model/activation_checkpoints.h"

#include <algorithm>

#include "zeroshard/device/scoped_span.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::model {
namespace {

using device::DType;

constexpr int64_t kSlots = 2;
constexpr char kLabel[] = "activations";

int64_t Elements(const GptOptions& options) { return options.batch * options.context * options.width; }
int64_t Bytes(const GptOptions& options) { return Elements(options) * device::SizeOf(DType::kFloat32); }

}  // namespace

int64_t ActivationCheckpoints::DeviceBytes(const GptOptions& options) {
  const int64_t kept = GroupsOf(options).kept();
  return (options.checkpoints_on_host ? std::min(kept, kSlots) : kept) * Bytes(options);
}

int64_t ActivationCheckpoints::HostBytes(const GptOptions& options) {
  return options.checkpoints_on_host ? GroupsOf(options).kept() * Bytes(options) : 0;
}

ActivationCheckpoints::ActivationCheckpoints(device::Device& device, const GptOptions& options)
    : device_(device),
      groups_(GroupsOf(options).kept()),
      elements_(Elements(options)),
      on_host_(options.checkpoints_on_host && groups_ > 0) {}

absl::StatusOr<std::unique_ptr<ActivationCheckpoints>> ActivationCheckpoints::Allocate(device::Device& device,
                                                                                       const GptOptions& options) {
  std::unique_ptr<ActivationCheckpoints> checkpoints(new ActivationCheckpoints(device, options));
  ActivationCheckpoints& c = *checkpoints;
  ZS_ASSIGN_OR_RETURN(c.memory_, device.Allocate(DeviceBytes(options), device::Use::kActivations, "activation checkpoints"));
  if (!c.on_host_) return checkpoints;
  ZS_ASSIGN_OR_RETURN(c.host_memory_, device.host().Allocate(HostBytes(options), device::Use::kActivations,
                                                             "activation checkpoints on the host"));
  c.host_ = static_cast<float*>(device.host().HostAddress(c.host_memory_.array(DType::kFloat32)));
  for (Slot& slot : c.slots_) {
    slot.filled = device.MakeEvent();
    slot.read = device.MakeEvent();
  }
  c.down_ = device.MakeStream(device::StreamKind::kCopyDown);
  c.up_ = device.MakeStream(device::StreamKind::kCopyUp);
  return checkpoints;
}

ActivationCheckpoints::~ActivationCheckpoints() {
  if (down_ != nullptr) down_->Synchronize();
  if (up_ != nullptr) up_->Synchronize();
}

device::Array ActivationCheckpoints::place(int64_t group) const {
  return memory_.array(DType::kFloat32).Slice((on_host_ ? group % kSlots : group) * elements_, elements_);
}

void ActivationCheckpoints::Keep(device::Stream& compute, int64_t group, device::In residual) {
  if (!on_host_) return device_.elementwise().Copy(compute, residual, place(group));
  Slot& s = slot(group);
  // `filled`, too: an abandoned micro-batch may have left a copy on its way up.
  compute.Wait(*s.filled);
  compute.Wait(*s.read);
  device_.elementwise().Copy(compute, residual, place(group));
  compute.Record(*s.filled);
  down_->Wait(*s.filled);
  {
    const device::ScopedSpan span(*down_, device::SpanKind::kCopy, kLabel, place(group).bytes());
    device_.CopyToHost(*down_, place(group), host(group));
  }
  down_->Record(*s.read);
}

// What `read` stands for came after all that ever went down from this slot: so the host has it.
void ActivationCheckpoints::FetchIntoSlot(int64_t group) {
  Slot& s = slot(group);
  up_->Wait(*s.read);
  {
    const device::ScopedSpan span(*up_, device::SpanKind::kCopy, kLabel, place(group).bytes());
    device_.CopyFromHost(*up_, host(group), place(group));
  }
  up_->Record(*s.filled);
}

void ActivationCheckpoints::BeginBackward() {
  if (!on_host_) return;
  for (int64_t group = groups_ - 1; group >= std::max<int64_t>(0, groups_ - kSlots); --group) FetchIntoSlot(group);
}

void ActivationCheckpoints::Restore(device::Stream& compute, int64_t group, device::Out residual) {
  if (on_host_) compute.Wait(*slot(group).filled);
  device_.elementwise().Copy(compute, place(group), residual);
  if (!on_host_) return;
  compute.Record(*slot(group).read);
  if (group >= kSlots) FetchIntoSlot(group - kSlots);
}

}  // namespace zeroshard::model

#include "zeroshard/zero/offload/host_gradients.h"

#include <algorithm>
#include <cstring>

#include "zeroshard/device/memory_ledger.h"
#include "zeroshard/device/scoped_span.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::zero {

using device::Array;
using device::DType;

absl::StatusOr<std::unique_ptr<HostGradients>> HostGradients::Create(device::Device& device, const OffloadPlan& plan,
                                                                     DType dtype) {
  std::unique_ptr<HostGradients> made(new HostGradients(device, plan, dtype));
  device::Device& host = device.host();
  ZS_ASSIGN_OR_RETURN(made->memory_,
                      host.Allocate(plan.offloaded() * SizeOf(dtype), device::Use::kGradients, "offloaded gradients"));
  ZS_ASSIGN_OR_RETURN(made->staging_,
                      host.Allocate(LandingBytes(plan), device::Use::kCommunication, "gradients on their way to the host"));
  ZS_ASSIGN_OR_RETURN(made->thread_, HostThread::Create(&device));
  return made;
}

HostGradients::HostGradients(device::Device& device, const OffloadPlan& plan, DType dtype)
    : device_(&device),
      host_(&device.host()),
      plan_(plan),
      dtype_(dtype),
      came_{device.MakeEvent(), device.MakeEvent()},
      down_(device.MakeStream(device::StreamKind::kCopyDown)),
      cores_(host_->MakeStream(device::StreamKind::kCompute)) {}

void HostGradients::Land(const Landing& landing) { Post(landing); }

// A landing of nothing that is not added: zeros.
void HostGradients::Zero(Range range) {
  Post({.part = Array(0, range.count, dtype_), .first = range.first, .accumulate = false});
}

void HostGradients::Post(const Landing& landing) {
  const int64_t index = posted_++ % static_cast<int64_t>(landings_.size());
  landings_[index] = landing;
  thread_->Post(
      [](void* self, int64_t i) {
        auto& host = *static_cast<HostGradients*>(self);
        host.Run(host.landings_[i]);
      },
      this, index);
}

Array HostGradients::Staging(int64_t piece, DType dtype, int64_t count) const {
  const Array all = staging_.array(DType::kUint8);
  return all.Slice(piece % 2 * (all.elements() / 2), count * SizeOf(dtype)).As(dtype);
}

void HostGradients::Run(const Landing& landing) {
  const Array target = Of({landing.first, landing.part.elements()});
  if (landing.ready == nullptr) return host_->elementwise().Fill(*cores_, target, 0);
  down_->Wait(*landing.ready);
  {
    const device::ScopedSpan span(*down_, device::SpanKind::kCopy, "gradients", landing.part.bytes());
    Copy(landing.part, target, landing.accumulate);
  }
  if (landing.landed != nullptr) down_->Record(*landing.landed);
  down_->Synchronize();
}

// Piece by piece: while one is added, the next one comes.
void HostGradients::Copy(const Array& part, const Array& target, bool accumulate) {
  const DType dtype = part.dtype();
  if (!accumulate && dtype == dtype_) return device_->CopyToHost(*down_, part, host_->HostAddress(target));
  const int64_t count = part.elements();
  const auto come = [&](int64_t first) {
    const int64_t piece = first / kLandingElements;
    const int64_t elements = std::min(kLandingElements, count - first);
    device_->CopyToHost(*down_, part.Slice(first, elements), host_->HostAddress(Staging(piece, dtype, elements)));
    down_->Record(*came_[piece % 2]);
  };
  if (count > 0) come(0);
  for (int64_t first = 0; first < count; first += kLandingElements) {
    const int64_t piece = first / kLandingElements;
    const int64_t elements = std::min(kLandingElements, count - first);
    if (first + kLandingElements < count) come(first + kLandingElements);
    came_[piece % 2]->Synchronize();
    const Array from = Staging(piece, dtype, elements);
    const Array to = target.Slice(first, elements);
    if (accumulate) {
      host_->elementwise().Accumulate(*cores_, from, to);
    } else {
      host_->elementwise().Convert(*cores_, from, to);
    }
  }
}

float HostGradients::Largest(Range range) {
  Drain();
  const Array largest = Staging(0, DType::kFloat32, 1);
  host_->elementwise().Fill(*cores_, largest, 0);
  host_->step().MaxMagnitude(*cores_, Of(range), device::OnePiece(range.count, /*of=*/0), largest);
  cores_->Synchronize();
  float value = 0;
  std::memcpy(&value, host_->HostAddress(largest), sizeof(value));
  return value;
}

void HostGradients::Read(device::Stream& stream, Range range, const Array& to) {
  Drain();
  for (int64_t first = 0; first < range.count; first += kLandingElements) {
    const int64_t count = std::min(kLandingElements, range.count - first);
    const Array staging = Staging(0, DType::kFloat32, count);
    host_->elementwise().Convert(*cores_, Of({range.first + first, count}), staging);
    device_->CopyFromHost(stream, host_->HostAddress(staging), to.Slice(first, count));
    stream.Synchronize();
  }
}

void HostGradients::Write(device::Stream& stream, Range range, const Array& from) {
  Drain();
  for (int64_t first = 0; first < range.count; first += kLandingElements) {
    const int64_t count = std::min(kLandingElements, range.count - first);
    const Array staging = Staging(0, DType::kFloat32, count);
    device_->CopyToHost(stream, from.Slice(first, count), host_->HostAddress(staging));
    stream.Synchronize();
    host_->elementwise().Convert(*cores_, staging, Of({range.first + first, count}));
  }
}

}  // namespace zeroshard::zero

#include "zeroshard/comm/work.h"

#include <optional>

#include "zeroshard/comm/communicator.h"
#include "zeroshard/comm/operation_ring.h"
#include "zeroshard/device/scoped_span.h"

namespace zeroshard::comm {
namespace {

class AlwaysDone final : public device::Event {
 public:
  void Expect() override {}
  bool Done() const override { return true; }
  void Synchronize() const override {}
};

}  // namespace

const device::Event& Work::event() const {
  static const AlwaysDone kDone;
  return communicator_ == nullptr ? kDone : communicator_->EventOf(ticket_);
}

void Work::WaitOn(device::Stream& stream) {
  if (communicator_ != nullptr) communicator_->WaitOn(ticket_, stream);
}

absl::Status Work::Wait() { return communicator_ == nullptr ? absl::OkStatus() : communicator_->Wait(ticket_); }

uint64_t Communicator::EndsWith(uint64_t ticket) const {
  const Ring::Slot* slot = ring_->Find(ticket);
  return slot == nullptr || slot->behind == 0 ? ticket : slot->behind;
}

const device::Event& Communicator::EventOf(uint64_t ticket) {
  ticket = EndsWith(ticket);
  DoHurry(ticket, WaitKind::kEvent);
  Ring::Slot* slot = ring_->Find(ticket);
  return slot == nullptr ? ring_->done() : *slot->operation.end;
}

void Communicator::WaitOn(uint64_t ticket, device::Stream& stream) {
  const device::ScopedSpan span(stream, device::SpanKind::kWait);
  ticket = EndsWith(ticket);
  if (span.span() != nullptr) NoteAwaited(ticket, *span.span());
  DoHurry(ticket, WaitKind::kStream);
  Ring::Slot* slot = ring_->Find(ticket);
  if (slot != nullptr) stream.Wait(*slot->operation.end);
}

absl::Status Communicator::Wait(uint64_t ticket) {
  const device::ScopedSpan span(*device_, device::SpanKind::kHostWait);
  if (span.span() != nullptr) NoteAwaited(ticket, *span.span());
  DoHurry(ticket, WaitKind::kHost);
  std::optional<absl::Status> ended = ring_->Await(ticket);
  if (!ended.has_value()) return status();
  Ring::Slot* slot = ring_->Find(ticket);
  if (slot == nullptr) return *std::move(ended);
  if (slot->behind != 0) {
    Wait(slot->behind).IgnoreError();
  } else if (ended->ok()) {
    slot->operation.end->Synchronize();
  }
  return *std::move(ended);
}

}  // namespace zeroshard::comm

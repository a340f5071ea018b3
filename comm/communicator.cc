#include "zeroshard/comm/communicator.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "zeroshard/comm/communicator_family.h"
#include "zeroshard/comm/operation_ring.h"

namespace zeroshard::comm {
namespace {

// Up to so many a collective may take no longer than a few reads of a clock: it is recorded without.
constexpr int64_t kBriefBytes = 64;

int64_t BytesOf(const Operation& operation) { return operation.count * device::SizeOf(operation.in_dtype); }

}  // namespace

Communicator::Communicator(device::Device& device, int rank, int world_size)
    : device_(&device),
      rank_(rank),
      world_size_(world_size),
      wire_(std::make_shared<WireLedger>()),
      ring_(std::make_unique<Ring>(device)),
      track_(device.recorder().TakeTrack()),
      family_(std::make_shared<Family>()) {
  family_->Join(*this);
  if (world_size == 1) alone_stream_ = device.MakeStream(device::StreamKind::kCommunication);
}

Communicator::~Communicator() {
  LeaveFamily();
  device_->recorder().GiveTrackBack(track_);
}

Work Communicator::AllReduce(device::In in, device::Out out, ReduceOp op, const CallOptions& options) {
  const Segment segment{in.array, out.array};
  return AllReduce({&segment, 1}, op, options);
}

Work Communicator::AllReduce(std::span<const Segment> segments, ReduceOp op, const CallOptions& options) {
  return Issue(OpKind::kAllReduce, segments, op, -1, options);
}

Work Communicator::ReduceScatter(device::In in, device::Out out, ReduceOp op, const CallOptions& options) {
  const Segment segment{in.array, out.array, out.array.elements()};
  return ReduceScatter({&segment, 1}, op, options);
}

Work Communicator::ReduceScatter(std::span<const Segment> segments, ReduceOp op, const CallOptions& options) {
  return Issue(OpKind::kReduceScatter, segments, op, -1, options);
}

Work Communicator::AllGather(device::In in, device::Out out, const CallOptions& options) {
  const Segment segment{in.array, out.array, in.array.elements()};
  return AllGather({&segment, 1}, options);
}

Work Communicator::AllGather(std::span<const Segment> segments, const CallOptions& options) {
  return Issue(OpKind::kAllGather, segments, ReduceOp::kSum, -1, options);
}

Work Communicator::Reduce(device::In in, device::Out out, ReduceOp op, int root, const CallOptions& options) {
  const Segment segment{in.array, out.array};
  return Reduce({&segment, 1}, op, root, options);
}

Work Communicator::Reduce(std::span<const Segment> segments, ReduceOp op, int root, const CallOptions& options) {
  return Issue(OpKind::kReduce, segments, op, root, options);
}

Work Communicator::Broadcast(device::In in, device::Out out, int root, const CallOptions& options) {
  const Segment segment{in.array, out.array};
  return Broadcast({&segment, 1}, root, options);
}

Work Communicator::Broadcast(std::span<const Segment> segments, int root, const CallOptions& options) {
  return Issue(OpKind::kBroadcast, segments, ReduceOp::kSum, root, options);
}

Work Communicator::Barrier(const CallOptions& options) { return Issue(OpKind::kBarrier, {}, ReduceOp::kSum, -1, options); }

Work Communicator::Issue(OpKind kind, std::span<const Segment> segments, ReduceOp op, int root, const CallOptions& options) {
  const std::lock_guard<device::BriefLock> lock(issue_lock_);
  Ring::Slot& slot = ring_->Claim();
  Operation& operation = slot.operation;
  operation.kind = kind;
  operation.op = op;
  operation.root = root;
  operation.sequence = sequence_ + 1;
  operation.segments = ring_->Keep(slot, segments);
  operation.event_count = 0;
  for (const device::Event* event : options.after) {
    if (event == nullptr || event == &Work().event()) continue;  // The latter is no device's, and done.
    operation.events[operation.event_count++] = event;
  }
  operation.wait_at_once = options.wait_at_once;
  operation.traffic = options.traffic;
  operation.label = options.label;
  operation.group = group_;
  if (options.end != nullptr) operation.end = options.end;

  absl::Status usable = status();
  if (usable.ok() && finalized_) usable = absl::FailedPreconditionError("the communicator was finalized before this call");
  if (usable.ok()) usable = CheckOperation(operation, rank_, world_size_, room_);
  if (usable.ok() && world_size_ > 1) usable = DoCheck(operation);
  const Work work(this, operation.ticket);
  if (!usable.ok()) {
    slot.behind = last_taken_;
    ring_->Finish(slot, usable);
    return work;
  }
  last_taken_ = operation.ticket;
  ++sequence_;
  if (kind == OpKind::kFinalize) finalized_ = true;
  NoteIssued(operation);
  operation.end->Expect();
  if (world_size_ == 1) {
    RunAlone(operation);
  } else {
    DoStart(operation);
  }
  ring_->PrefetchNext();
  return work;
}

device::Recorder::Issued Communicator::Recorded(const Operation& operation, int64_t bytes) const {
  return {.name = Name(operation.kind),
          .label = operation.label,
          .group = group_,
          .sequence = operation.sequence,
          .count = operation.count,
          .bytes = bytes,
          .dtype = operation.in_dtype,
          .control = operation.traffic == Traffic::kControl,
          .track = track_};
}

void Communicator::NoteIssued(Operation& operation) const {
  const int64_t bytes = BytesOf(operation);
  device::Recorder& recorder = device_->recorder();
  const bool brief = operation.wait_at_once && bytes <= kBriefBytes && !recorder.tracing();
  operation.record = brief ? recorder.IssueBrief() : recorder.Issue(Recorded(operation, bytes));
}

int64_t Communicator::NoteBegun(const Operation& operation) {
  int64_t ready_ns = 0;
  for (const device::Event* event : operation.after()) ready_ns = std::max(ready_ns, event->recorded_ns());
  if (!operation.record.brief) return device::Recorder::Began(operation.record, ready_ns);
  return device_->recorder().BeganBrief(operation.record, Recorded(operation, BytesOf(operation)), ready_ns);
}

void Communicator::NoteAwaited(uint64_t ticket, device::Span& span) {
  Ring::Slot* slot = ring_->Find(ticket);
  if (slot == nullptr) return;
  span.sequence = slot->operation.sequence;
  span.other_track = track_;
  span.control = slot->operation.traffic == Traffic::kControl;
  device::Assign(span.name, Name(slot->operation.kind));
  device::Assign(span.label, slot->operation.label);
}

void Communicator::RunAlone(Operation& operation) {
  for (const device::Event* event : operation.after()) alone_stream_->Wait(*event);
  NoteBegun(operation);
  for (const Segment& segment : operation.segments) {
    if (segment.in.empty() || segment.in.address() == segment.out.address()) continue;
    if (segment.in.dtype() == segment.out.dtype()) {
      device_->elementwise().Copy(*alone_stream_, segment.in, segment.out);
    } else {
      device_->elementwise().Convert(*alone_stream_, segment.in, segment.out);
    }
  }
  NoteEnded(operation);
  alone_stream_->Record(*operation.end);
  Finish(operation, device_->status());
}

void Communicator::Finish(Operation& operation, const absl::Status& status) {
  NoteEnded(operation);
  if (!status.ok()) Fail(status);
  ring_->Finish(ring_->SlotOf(operation.ticket), status.ok() ? status : this->status());
}

void Communicator::Fail(const absl::Status& cause) {
  if (!cause.ok() && FailAlone(cause)) FamilyOf()->Spread(cause);
}

bool Communicator::FailAlone(const absl::Status& cause) {
  std::lock_guard<std::mutex> lock(error_mutex_);
  if (!first_error_.ok()) return false;
  first_error_ = cause;
  failed_.store(true, std::memory_order_release);
  return true;
}

absl::Status Communicator::status() const {
  if (!failed()) return absl::OkStatus();
  std::lock_guard<std::mutex> lock(error_mutex_);
  return first_error_;
}

void Communicator::Abort(absl::Status cause) {
  Fail(cause.ok() ? absl::FailedPreconditionError("aborted") : cause);
  DoAbort(status());
}

absl::Status Communicator::Finalize() { return Issue(OpKind::kFinalize, {}, ReduceOp::kSum, -1, {}).Wait(); }

absl::StatusOr<device::Buffer> Communicator::Allocate(int64_t bytes, device::Use use, std::string_view what) {
  return DoAllocate(bytes, use, what);
}

absl::StatusOr<device::Buffer> Communicator::DoAllocate(int64_t bytes, device::Use use, std::string_view what) {
  return device_->Allocate(bytes, use, what);
}

}  // namespace zeroshard::comm

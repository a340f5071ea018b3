#include "zeroshard/backends/nccl/nccl_communicator.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "zeroshard/backends/nccl/collectives.h"
#include "zeroshard/backends/nccl/comm_handle.h"
#include "zeroshard/backends/nccl/flights.h"
#include "zeroshard/backends/nccl/group_notes.h"
#include "zeroshard/backends/nccl/join.h"
#include "zeroshard/backends/nccl/nccl_memory.h"
#include "zeroshard/backends/nccl/nccl_thread.h"
#include "zeroshard/backends/nccl/pace.h"
#include "zeroshard/backends/nccl/registered_memory.h"
#include "zeroshard/backends/nccl/step_agreement.h"
#include "zeroshard/backends/nccl/warm_up.h"
#include "zeroshard/backends/nccl/watchdog.h"
#include "zeroshard/comm/operation_header.h"
#include "zeroshard/device/cuda/cuda_device.h"
#include "zeroshard/device/cuda/cuda_stream.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::backends {
namespace {

constexpr absl::Duration kDestroyWithin = absl::Seconds(10);
constexpr int kSpins = 200;
// Of NCCL's memory: what a small model's buffers fit into together. Larger ones have a piece each, and there is one of each kind.
constexpr int64_t kPieceBytes = int64_t{16} << 20;

class NcclCommunicator final : public comm::Communicator, private NcclThread::Issuer, private Watched {
 public:
  NcclCommunicator(const NcclOptions& options, Joined joined)
      : Communicator(*options.device, options.rank, options.world_size),
        options_(options),
        joined_(std::move(joined)),
        stream_(joined_.stream.get()),
        lane_{.comm = joined_.handle == nullptr ? nullptr : joined_.handle->get(),
              .stream = stream_,
              .native = device::cuda::CudaStream::Of(*stream_).native(),
              .rank = options.rank,
              .world_size = options.world_size,
              .node_size = NodeSize(joined_.hosts),
              .scratch = {}},
        flights_(*options.device),
        steps_(*joined_.notes, options.timeout) {
    if (options.reduction == comm::Reduction::kNative) LeaveTheTree();
    if (joined_.thread != nullptr) joined_.thread->MakeRoom(kRing);
  }

  // Scratch, and one operation of each kind, so that none connects or allocates later. Collective.
  absl::Status Begin() {
    if (world_size() == 1) return absl::OkStatus();
    memory_.emplace(
        RegisterOptions{.device = &device(),
                        .stream = stream_,
                        .handle = joined_.handle,
                        .thread = joined_.thread,
                        .notes = joined_.notes.get(),
                        .rank = rank(),
                        .world_size = world_size(),
                        .piece_bytes = std::min(kPieceBytes, static_cast<device::cuda::CudaDevice&>(device()).piece_bytes()),
                        .timeout = options_.timeout});
    if (comm::RankWatch* const watch = joined_.notes->watch(); watch != nullptr) watch->Follow(device().shared_recorder());
    pace_.emplace(*stream_, *joined_.handle);
    lane_.pace = &*pace_;
    watchdog_.emplace(WatchOptions{.communicator = this,
                                   .watched = this,
                                   .stream = stream_,
                                   .handle = joined_.handle,
                                   .notes = joined_.notes.get(),
                                   .flights = &flights_,
                                   .timeout = options_.timeout,
                                   .abort_patience = options_.abort_patience,
                                   .leave_patience = options_.leave_patience});
    const int64_t bytes = NcclMemory({.world_size = world_size(), .scratch_bytes = options_.scratch_bytes}).device_bytes;
    device().ledger().Predict(device::Use::kCommunication, bytes);
    ZS_ASSIGN_OR_RETURN(scratch_, DoAllocate(bytes, device::Use::kCommunication, "scratch of collectives"));
    lane_.scratch = scratch_.array(device::DType::kUint8);
    return WarmUp(lane_, joined_.handle, *joined_.thread, options_.timeout);
  }

  ~NcclCommunicator() override {
    LeaveFamily();
    if (!watchdog_) {
      if (joined_.handle != nullptr) joined_.handle->Abort(options_.abort_patience);  // A part of this rank alone.
      return;
    }
    watchdog_->Reap();  // What ended as a stream knows, and the watchdog does not yet.
    if (!flights_.empty()) Abort(absl::FailedPreconditionError("the communicator was dropped with operations in flight"));
    const bool in_peace = watchdog_->TakeLeave();
    scratch_ = {};
    if (in_peace) {
      joined_.thread
          ->Call(
              "ncclCommDestroy", [handle = joined_.handle] { return handle->Destroy(); }, kDestroyWithin)
          .IgnoreError();
    }
    watchdog_.reset();
    // Here, where all is there that a first collective which was left behind still uses.
    memory_.reset();
    joined_.thread.reset();
  }

 private:
  absl::Status DoCheck(const comm::Operation& operation) const override {
    return CheckCollective(operation, options_.reduction);
  }

  void DoStart(comm::Operation& operation) override {
    flights_.Take(operation, HeaderOf(operation));
    joined_.thread->Post(*this, operation);
  }

  // Operations begin as they are posted. A host that waits looks for the end itself: nobody else is as quick.
  void DoHurry(uint64_t ticket, WaitKind kind) override {
    if (kind != WaitKind::kHost) return;
    for (int i = 0; !flights_.Ended(ticket); ++i) {
      watchdog_->Reap();
      if (i < kSpins) {
        __builtin_ia32_pause();
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
    }
  }

  void DoAbort(const absl::Status& /*cause*/) override {
    if (watchdog_) watchdog_->GiveUp();
  }

  absl::StatusOr<std::unique_ptr<Communicator>> DoSplit(std::span<const int> members, int rank, uint64_t id) override {
    NcclOptions options = options_;
    options.rank = rank;
    options.world_size = static_cast<int>(members.size());
    ZS_ASSIGN_OR_RETURN(Joined part, JoinPart(joined_, {.color = members.front(),
                                                        .rank = rank,
                                                        .world_size = options.world_size,
                                                        .members = members,
                                                        .id = id,
                                                        .timeout = options.timeout}));
    auto communicator = std::make_unique<NcclCommunicator>(options, std::move(part));
    ZS_RETURN_IF_ERROR(communicator->Begin());
    return communicator;
  }

  absl::Status DoStandAside(uint64_t id) override {
    return JoinPart(joined_, {.color = -1, .members = {}, .id = id, .timeout = options_.timeout}).status();
  }

  absl::StatusOr<device::Buffer> DoAllocate(int64_t bytes, device::Use use, std::string_view what) override {
    if (world_size() == 1) return device().Allocate(bytes, use, what);
    return memory_->Allocate(bytes, use, what);
  }

  // On the thread that calls NCCL.
  void Issue(comm::Operation& operation) override {
    constexpr int kTimes = 4;  // its start, its end, and both in a trace
    absl::Status started = pace_->Take(static_cast<int>(operation.after().size()) + kTimes);
    for (const device::Event* event : operation.after()) stream_->Wait(*event);
    if (started.ok()) started = status();
    if (started.ok()) started = Start(operation);
    if (!started.ok()) watchdog_->FailBy(HeaderOf(operation), started);
    flights_.Issue(*stream_);
  }

  absl::Status Start(comm::Operation& operation) {
    ZS_RETURN_IF_ERROR(steps_.Agree(HeaderOf(operation), flights_.StepOfNext(), watchdog_->giving_up()));
    if (!joined_.handle->Enter()) return absl::OkStatus();  // Aborted meanwhile.
    NoteBegun(operation);
    flights_.Begin(*stream_);
    device::Span* const span = operation.record.span;  // In a trace times are the device's.
    if (span != nullptr) stream_->Stamp(span->begun_ns);
    const device::RangeMarks* const marks = device().recorder().marks();
    if (marks != nullptr) marks->push(comm::Name(operation.kind).data());
    const absl::Status started = StartCollective(lane_, operation, options_.reduction);
    if (marks != nullptr) marks->pop();
    if (span != nullptr) stream_->Stamp(span->ended_ns);
    joined_.handle->Leave();
    wire().Add(operation.traffic, SentBytes(operation, rank(), world_size()));
    return started;
  }

  void HasFailed(const absl::Status& cause) override { Fail(cause); }
  void HasEnded(comm::Operation& operation, const absl::Status& status) override { Finish(operation, status); }

  // Among the ranks of the communicator that all others were split from.
  int own_number() const { return joined_.notes->Number(rank()); }
  comm::OperationHeader HeaderOf(const comm::Operation& operation) const {
    return comm::MakeHeader(operation, own_number(), world_size());
  }

  const NcclOptions options_;
  Joined joined_;
  device::Stream* const stream_;
  std::optional<Pace> pace_;  // of the thread that calls NCCL
  Lane lane_;
  std::optional<RegisteredMemory> memory_;
  device::Buffer scratch_;

  Flights flights_;
  StepAgreement steps_;  // of the thread that calls NCCL
  std::optional<Watchdog> watchdog_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<comm::Communicator>> MakeNcclCommunicator(const NcclOptions& options) {
  ZS_ASSIGN_OR_RETURN(Joined joined, Join(options));
  auto communicator = std::make_unique<NcclCommunicator>(options, std::move(joined));
  ZS_RETURN_IF_ERROR(communicator->Begin());
  return communicator;
}

}  // namespace zeroshard::backends

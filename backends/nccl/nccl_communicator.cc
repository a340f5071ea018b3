#include "zeroshard/backends/nccl/nccl_communicator.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "zeroshard/backends/nccl/collectives.h"
#include "zeroshard/backends/nccl/comm_handle.h"
#include "zeroshard/backends/nccl/flights.h"
#include "zeroshard/backends/nccl/group_notes.h"
#include "zeroshard/backends/nccl/join.h"
#include "zeroshard/backends/nccl/look_out.h"
#include "zeroshard/backends/nccl/nccl_memory.h"
#include "zeroshard/backends/nccl/nccl_thread.h"
#include "zeroshard/backends/nccl/pace.h"
#include "zeroshard/backends/nccl/registered_memory.h"
#include "zeroshard/backends/nccl/step_agreement.h"
#include "zeroshard/backends/nccl/warm_up.h"
#include "zeroshard/comm/operation_header.h"
#include "zeroshard/device/cuda/cuda_device.h"
#include "zeroshard/device/cuda/cuda_stream.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::backends {
namespace {

constexpr auto kTick = std::chrono::milliseconds(5);       // of the watchdog
constexpr auto kFullTick = std::chrono::microseconds(50);  // while a full ring holds its caller
constexpr absl::Duration kDrainWithin = absl::Seconds(1);  // of the stream, after an abort
constexpr absl::Duration kDestroyWithin = absl::Seconds(10);
constexpr int kSpins = 200;
// Of NCCL's memory: what a small model's buffers fit into together. Larger ones have a piece each, and there is one of each kind.
constexpr int64_t kPieceBytes = int64_t{16} << 20;

class NcclCommunicator final : public comm::Communicator, private NcclThread::Issuer {
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
    look_out_.emplace(device(), *joined_.handle, *joined_.notes, options_.timeout);
    watchdog_ = std::thread([this] { Watch(); });
    const int64_t bytes = NcclMemory({.world_size = world_size(), .scratch_bytes = options_.scratch_bytes}).device_bytes;
    device().ledger().Predict(device::Use::kCommunication, bytes);
    ZS_ASSIGN_OR_RETURN(scratch_, DoAllocate(bytes, device::Use::kCommunication, "scratch of collectives"));
    lane_.scratch = scratch_.array(device::DType::kUint8);
    return WarmUp(lane_, *joined_.thread, options_.timeout);
  }

  ~NcclCommunicator() override {
    LeaveFamily();
    if (!watchdog_.joinable()) return;
    stop_agreeing_ = true;
    Reap();  // What ended as a stream knows, and the watchdog does not yet.
    if (!flights_.empty()) Abort(absl::FailedPreconditionError("the communicator was dropped with operations in flight"));
    if (!left_in_peace_ && status().ok()) joined_.notes->Leave();
    // Nobody says that the others are here to destroy it together, but where all took leave.
    leave_ = !left_in_peace_ || !status().ok();
    wake_.notify_all();
    while (!flights_.empty() || (leave_ && !aborted_))
      std::this_thread::sleep_for(kTick);  // The watchdog's, or the process ends.
    scratch_ = {};
    if (!leave_) {
      joined_.thread
          ->Call(
              "ncclCommDestroy", [handle = joined_.handle] { return handle->Destroy(); }, kDestroyWithin)
          .IgnoreError();
    }
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    watchdog_.join();
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
      Reap();
      if (i < kSpins) {
        __builtin_ia32_pause();
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
    }
  }

  void DoAbort(const absl::Status& /*cause*/) override {
    stop_agreeing_ = true;
    wake_.notify_all();
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
    if (!started.ok()) FailBy(HeaderOf(operation), started);
    flights_.Issue(*stream_);
  }

  absl::Status Start(comm::Operation& operation) {
    ZS_RETURN_IF_ERROR(steps_.Agree(HeaderOf(operation), flights_.StepOfNext(), stop_agreeing_));
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

  // Finishes what the device has come past, in order. Of a failed communicator nothing before the abort is through, and then all, with
  // its error; `all`: whatever the device says.
  void Reap(bool all = false) {
    std::lock_guard<std::mutex> reap(reap_mutex_);
    while (status().ok() || aborted_) {
      comm::Operation* const operation = flights_.OldestPassed(all);
      if (operation == nullptr) return;
      const absl::Status ended = status();
      if (!ended.ok() && !aborted_) return;
      if (ended.ok() && operation->kind == comm::OpKind::kFinalize) left_in_peace_ = true;
      flights_.DropOldest();
      Finish(*operation, ended);
    }
  }

  // The communicator fails by what happened to that operation.
  void FailBy(const comm::OperationHeader& operation, const absl::Status& why) {
    if (!status().ok()) return;
    Fail(Explained(operation, group(), why, joined_.notes->watch()));
    wake_.notify_all();
  }

  void Watch() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!stop_) {
      wake_.wait_for(lock, flights_.full() ? std::chrono::nanoseconds(kFullTick) : kTick,
                     [this] { return stop_ || ((leave_ || !status().ok()) && !aborted_); });
      if (stop_) return;
      lock.unlock();
      Look();
      lock.lock();
    }
  }

  void Look() {
    Reap();
    if (status().ok() && !leave_) LookForTrouble();
    if (status().ok() && !leave_) return;
    if (!aborted_) {
      AbortComm();
      // A broken device does nothing more, and says so at once.
      if (!device().status().ok()) stream_->Synchronize();
    }
    Reap(/*all=*/absl::Now() > aborted_at_ + kDrainWithin);
  }

  void LookForTrouble() {
    const std::optional<Flights::Oldest> oldest = flights_.oldest();
    const Trouble trouble = look_out_->Look(oldest);
    if (trouble.why.ok()) return;
    if (!trouble.in_flight) return Fail(trouble.why);
    // Unless it has ended meanwhile.
    Reap();
    const std::optional<Flights::Oldest> now = flights_.oldest();
    if (now && now->header.sequence == oldest->header.sequence) FailBy(oldest->header, trouble.why);
  }

  void AbortComm() {
    stop_agreeing_ = true;
    if (!status().ok()) joined_.notes->GiveUp(status());
    if (!joined_.handle->Abort(options_.abort_patience)) LeaveProcess(status(), options_.abort_patience);
    aborted_at_ = absl::Now();
    aborted_ = true;
  }

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
  StepAgreement steps_;              // of the thread that calls NCCL
  std::optional<LookOut> look_out_;  // of the watchdog

  std::mutex reap_mutex_;  // one thread finishes at a time
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;

  std::atomic<bool> stop_agreeing_{false};
  std::atomic<bool> leave_{false};
  std::atomic<bool> aborted_{false};
  std::atomic<bool> left_in_peace_{false};
  absl::Time aborted_at_ = absl::InfinitePast();
  std::thread watchdog_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<comm::Communicator>> MakeNcclCommunicator(const NcclOptions& options) {
  ZS_ASSIGN_OR_RETURN(Joined joined, Join(options));
  auto communicator = std::make_unique<NcclCommunicator>(options, std::move(joined));
  ZS_RETURN_IF_ERROR(communicator->Begin());
  return communicator;
}

}  // namespace zeroshard::backends

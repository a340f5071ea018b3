#include "zeroshard/backends/nccl/nccl_communicator.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "zeroshard/backends/nccl/collectives.h"
#include "zeroshard/backends/nccl/comm_handle.h"
#include "zeroshard/backends/nccl/group_notes.h"
#include "zeroshard/backends/nccl/join.h"
#include "zeroshard/backends/nccl/nccl_thread.h"
#include "zeroshard/backends/nccl/registered_memory.h"
#include "zeroshard/comm/last_operation.h"
#include "zeroshard/comm/operation_header.h"
#include "zeroshard/device/cuda/cuda_stream.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::backends {
namespace {

constexpr int kExitPeerLost = 4;         // as the tools' exit codes have it
constexpr int64_t kStepsAgreedUpon = 2;  // see "Note: Steps"
constexpr uint64_t kAgreedUponAtFirst = 256;
constexpr auto kTick = std::chrono::milliseconds(5);       // of the watchdog
constexpr auto kFullTick = std::chrono::microseconds(50);  // while a full ring holds its caller
constexpr absl::Duration kLookAtStore = absl::Milliseconds(100);
constexpr absl::Duration kLookForTheDead = absl::Seconds(2);  // a look takes up to as long
constexpr absl::Duration kLeftBehind = absl::Seconds(1);      // how long an operation may go on after a rank has left
constexpr absl::Duration kGrace = absl::Seconds(2);           // for the others' answers after a deadline
constexpr absl::Duration kDrainWithin = absl::Seconds(1);     // of the stream, after an abort
constexpr absl::Duration kDestroyWithin = absl::Seconds(10);
constexpr int kSpins = 200;

// Of what all ranks must have called alike.
uint64_t HashOf(const comm::OperationHeader& header, uint64_t hash) {
  for (const int64_t value : {static_cast<int64_t>(header.sequence), header.count, static_cast<int64_t>(header.layout),
                              int64_t{header.root}, int64_t{header.segments}, int64_t{header.kind}, int64_t{header.op},
                              int64_t{header.in_dtype}, int64_t{header.out_dtype}}) {
    hash = (hash ^ static_cast<uint64_t>(value)) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  }
  return hash;
}

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
              .scratch = {}} {
    if (options.reduction == comm::Reduction::kNative) LeaveTheTree();
    for (Flight& flight : flights_) flight.start = options.device->MakeEvent();
    if (joined_.thread != nullptr) joined_.thread->MakeRoom(kRing);
  }

  // Scratch, and one operation of each kind, so that none connects or allocates later. Collective.
  absl::Status Begin() {
    if (world_size() == 1) return absl::OkStatus();
    watchdog_ = std::thread([this] { Watch(); });
    const int64_t bytes = std::max(options_.scratch_bytes, LeastScratchBytes(world_size()));
    device().ledger().Predict(device::Use::kCommunication, bytes);
    ZS_ASSIGN_OR_RETURN(scratch_, DoAllocate(bytes, device::Use::kCommunication, "scratch of collectives"));
    lane_.scratch = scratch_.array(device::DType::kUint8);
    return WarmUp();
  }

  ~NcclCommunicator() override {
    LeaveFamily();
    if (!watchdog_.joinable()) return;
    stop_agreeing_ = true;
    Reap();  // What ended as a stream knows, and the watchdog does not yet.
    if (Outstanding()) Abort(absl::FailedPreconditionError("the communicator was dropped with operations in flight"));
    if (!left_in_peace_ && status().ok()) joined_.notes->Leave();
    // Nobody says that the others are here to destroy it together, but where all took leave.
    leave_ = !left_in_peace_ || !status().ok();
    wake_.notify_all();
    while (Outstanding() || (leave_ && !aborted_))
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
  // An operation from DoStart to Finish.
  struct Flight {
    comm::Operation* operation = nullptr;
    std::unique_ptr<device::Event> start;  // on the stream, once its `after` are done
    int64_t step = -1;
    bool began = false;
    absl::Time posted_at, began_at;
  };

  absl::Status DoCheck(const comm::Operation& operation) const override {
    return CheckCollective(operation, options_.reduction);
  }

  void DoStart(comm::Operation& operation) override {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      Flight& flight = flights_[(first_ + outstanding_++) % kRing];
      flight.operation = &operation;
      flight.step = operation.record.flight == nullptr ? -1 : operation.record.flight->step;
      flight.began = false;
      flight.posted_at = absl::Now();
    }
    joined_.thread->Post(*this, operation);
  }

  // Operations begin as they are posted. A host that waits looks for the end itself: nobody else is as quick.
  void DoHurry(uint64_t ticket, WaitKind kind) override {
    if (kind != WaitKind::kHost) return;
    for (int i = 0; !Ended(ticket); ++i) {
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
    return AllocateRegistered({.device = &device(),
                               .stream = stream_,
                               .handle = joined_.handle,
                               .thread = joined_.thread,
                               .notes = joined_.notes.get(),
                               .rank = rank(),
                               .world_size = world_size(),
                               .nth = allocations_++,
                               .timeout = options_.timeout},
                              bytes, use, what);
  }

  // On the thread that calls NCCL.
  void Issue(comm::Operation& operation) override {
    Flight* flight = nullptr;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      flight = &flights_[(first_ + issued_) % kRing];
    }
    for (const device::Event* event : operation.after) {
      if (event != nullptr) stream_->Wait(*event);
    }
    absl::Status started = status();
    if (started.ok()) started = Start(operation, *flight);
    if (!started.ok()) FailBy(MakeHeader(operation), started);
    std::lock_guard<std::mutex> lock(mutex_);  // Whoever knows of the end finds it issued.
    stream_->Record(*operation.end);
    ++issued_;
  }

  absl::Status Start(comm::Operation& operation, Flight& flight) {
    if (joined_.notes->watch() != nullptr) joined_.notes->watch()->Note(comm::NoteOperation(operation));
    ZS_RETURN_IF_ERROR(Agree(operation, flight.step));
    if (!joined_.handle->Enter()) return absl::OkStatus();  // Aborted meanwhile.
    NoteBegun(operation);
    stream_->Record(*flight.start);
    device::Span* const span = operation.record.span;  // In a trace times are the device's.
    if (span != nullptr) stream_->Stamp(span->begun_ns);
    const absl::Status started = StartCollective(lane_, operation, options_.reduction);
    if (span != nullptr) stream_->Stamp(span->ended_ns);
    joined_.handle->Leave();
    wire().Add(operation.traffic, SentBytes(operation, rank(), world_size()));
    return started;
  }

  comm::OperationHeader MakeHeader(const comm::Operation& operation) const {
    return comm::MakeHeader(operation, joined_.notes->Number(rank()), world_size());
  }

  // See "Note: Steps".
  absl::Status Agree(const comm::Operation& operation, int64_t step) {
    const comm::OperationHeader header = MakeHeader(operation);
    if (step != step_) {
      if (step_ >= kStepsAgreedUpon) joined_.notes->NoteStep(step_, step_hash_);
      step_ = step;
    }
    if (step < 0 ? operation.sequence <= kAgreedUponAtFirst : step < kStepsAgreedUpon) {
      return joined_.notes->Agree(header, options_.timeout, stop_agreeing_);
    }
    step_hash_ = HashOf(header, step_hash_);
    return absl::OkStatus();
  }

  bool Outstanding() {
    std::lock_guard<std::mutex> lock(mutex_);
    return outstanding_ > 0;
  }
  bool Ended(uint64_t ticket) {
    std::lock_guard<std::mutex> lock(mutex_);
    return outstanding_ == 0 || flights_[first_].operation->ticket > ticket;
  }

  // Finishes what the device has come past, in order. Of a failed communicator nothing before the abort is through, and then all, with
  // its error; `all`: whatever the device says.
  void Reap(bool all = false) {
    std::lock_guard<std::mutex> reap(reap_mutex_);
    while (true) {
      comm::Operation* operation = nullptr;
      {
        std::lock_guard<std::mutex> lock(mutex_);
        if (issued_ == 0) return;
        Flight& flight = flights_[first_];
        if (!status().ok() && !aborted_) return;
        if (!flight.began && flight.start->Done()) {
          flight.began = true;
          flight.began_at = absl::Now();
        }
        if (!all && !flight.operation->end->Done()) return;
        operation = flight.operation;
      }
      const absl::Status ended = status();
      if (ended.ok() && operation->kind == comm::OpKind::kFinalize) left_in_peace_ = true;
      if (joined_.notes->watch() != nullptr && ended.ok()) joined_.notes->watch()->NoteEnd(operation->sequence);
      {
        std::lock_guard<std::mutex> lock(mutex_);
        first_ = (first_ + 1) % kRing;
        --outstanding_;
        --issued_;
      }
      Finish(*operation, ended);
    }
  }

  // The communicator fails by what happened to that operation.
  void FailBy(const comm::OperationHeader& operation, const absl::Status& why) {
    if (!status().ok()) return;
    std::string who;
    if (joined_.notes->watch() != nullptr && (absl::IsDeadlineExceeded(why) || absl::IsUnavailable(why)) &&
        !absl::StrContains(why.message(), comm::kItsLastOperation)) {
      who = joined_.notes->watch()->WhoIsMissing();
    }
    const int64_t bytes = operation.count * device::SizeOf(static_cast<device::DType>(operation.in_dtype));
    Fail(absl::Status(why.code(),
                      absl::StrCat("rank ", joined_.notes->Number(rank()), ", ", Describe(operation), ", ", bytes,
                                   " bytes, over nccl: ", why.message(), who.empty() ? "" : absl::StrCat("; ", who))));
    wake_.notify_all();
  }

  void Watch() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!stop_) {
      wake_.wait_for(lock, outstanding_ == kRing ? std::chrono::nanoseconds(kFullTick) : kTick,
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

  // The oldest operation in flight, as it is now.
  struct Oldest {
    bool any = false;
    comm::OperationHeader header;
    bool began = false;
    absl::Time posted_at, began_at;
  };
  Oldest OldestFlight() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (outstanding_ == 0) return {};
    const Flight& flight = flights_[first_];
    return {.any = true,
            .header = MakeHeader(*flight.operation),
            .began = flight.began,
            .posted_at = flight.posted_at,
            .began_at = flight.began_at};
  }

  void LookForTrouble() {
    const absl::Time now = absl::Now();
    if (const absl::Status broken = device().status(); !broken.ok()) return Fail(broken);
    const Oldest oldest = OldestFlight();
    if (oldest.any && oldest.began && now - oldest.began_at > options_.timeout) {
      return FailInFlight(oldest,
                          joined_.notes->WhoIsLate(oldest.header, options_.timeout, std::min(options_.timeout, kGrace)));
    }
    if (now < next_look_) return;
    next_look_ = now + kLookAtStore;
    if (const absl::Status steps = joined_.notes->CheckSteps(); absl::IsFailedPrecondition(steps)) return Fail(steps);
    if (!oldest.any) return Fail(joined_.notes->WhyGivenUp(/*gone=*/false));
    if (now - oldest.posted_at < kLookAtStore) return;
    if (const absl::Status error = joined_.handle->AsyncError(); !error.ok()) return FailInFlight(oldest, error);
    const bool stuck = oldest.began && now - oldest.began_at > kLeftBehind;
    if (const absl::Status why = joined_.notes->WhyGivenUp(/*gone=*/stuck); !why.ok()) return FailInFlight(oldest, why);
    if (now - oldest.posted_at < kLookForTheDead || now < next_look_for_the_dead_) return;
    next_look_for_the_dead_ = now + kLookForTheDead;
    const std::string missing = joined_.notes->watch() == nullptr ? "" : joined_.notes->watch()->WhoIsMissing();
    if (!missing.empty()) FailInFlight(oldest, absl::UnavailableError(missing));
  }

  // The oldest operation fails, unless it has ended meanwhile.
  void FailInFlight(const Oldest& oldest, const absl::Status& why) {
    Reap();
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (outstanding_ == 0 || flights_[first_].operation->sequence != oldest.header.sequence) return;
    }
    FailBy(oldest.header, why);
  }

  void AbortComm() {
    stop_agreeing_ = true;
    if (!status().ok()) joined_.notes->GiveUp(status());
    if (!joined_.handle->Abort(options_.abort_patience)) LeaveNow();
    aborted_at_ = absl::Now();
    aborted_ = true;
  }

  // NCCL does not come back: neither does anything that waits for the device.
  [[noreturn]] void LeaveNow() {
    const std::string message =
        absl::StrCat("error: ", status().message(), "; ncclCommAbort has not come back within ",
                     absl::FormatDuration(options_.abort_patience), ", so this process leaves at once\n");
    std::fputs(message.c_str(), stderr);
    std::fflush(stderr);
    _exit(kExitPeerLost);
  }

  absl::Status WarmUp() {
    const device::Array floats = lane_.scratch.As(device::DType::kFloat32);
    const int n = world_size();
    const auto warm_up = [this, n, floats] {
      const device::Array whole = floats.Slice(0, n);
      const device::Array own = floats.Slice(rank(), 1);
      for (int kind = 0; kind < 2; ++kind) {
        CallGroup group(lane_);
        if (kind == 0) {
          group.AllGather(own, whole);
          group.Broadcast(own, own, 0);
          group.AllReduce(own, own, ncclSum);
          group.ReduceScatter(whole, own, ncclSum);
          group.Reduce(own, own, ncclSum, 0);
        } else {
          for (int peer = 0; peer < n; ++peer) {
            if (peer != rank()) group.Send(own, peer);
            if (peer != rank()) group.Receive(floats.Slice(peer, 1), peer);
          }
        }
        ZS_RETURN_IF_ERROR(group.End());
      }
      stream_->Synchronize();
      return device().status();
    };
    return joined_.thread->Call("the first collective", warm_up, options_.timeout);
  }

  const NcclOptions options_;
  Joined joined_;
  device::Stream* const stream_;
  Lane lane_;
  device::Buffer scratch_;
  int64_t allocations_ = 0;

  // Of the thread that calls NCCL.
  int64_t step_ = -1;
  uint64_t step_hash_ = 0;

  std::mutex reap_mutex_;  // before mutex_: one thread finishes at a time
  std::mutex mutex_;
  std::condition_variable wake_;
  std::array<Flight, kRing> flights_;  // oldest at first_
  size_t first_ = 0;
  size_t outstanding_ = 0;
  size_t issued_ = 0;  // of those, from the oldest on: start and end are recorded
  bool stop_ = false;

  std::atomic<bool> stop_agreeing_{false};
  std::atomic<bool> leave_{false};
  std::atomic<bool> aborted_{false};
  std::atomic<bool> left_in_peace_{false};
  absl::Time aborted_at_ = absl::InfinitePast();
  absl::Time next_look_ = absl::InfinitePast();
  absl::Time next_look_for_the_dead_ = absl::InfinitePast();
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

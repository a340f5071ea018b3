#include "zeroshard/comm/host_communicator.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "zeroshard/comm/host_memory_view.h"
#include "zeroshard/comm/operation_queue.h"
#include "zeroshard/comm/schedules/exchange.h"
#include "zeroshard/device/first_error.h"
#include "zeroshard/device/our_thread.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::comm {
namespace {

// What every schedule needs of scratch at the least, for each rank: halving moves a few elements of every part, three times.
constexpr int64_t kLeastScratchPerRank = 3 * 8 * 16;

// How far behind a record's clock may be (Recorder::IssueBrief).
constexpr std::chrono::milliseconds kTick{10};

Schedules SchedulesOf(const Transport& transport, const HostOptions& options) {
  const HostGrid grid = HostGridOf(transport);
  return {.choice = Resolve(options.schedules, transport.world_size(), grid),
          .grid = grid,
          .by_host_bytes = options.by_host_bytes};
}

Exchange::Meeting MeetingOf(const Schedules& schedules) {
  const bool all = schedules.choice == ScheduleChoice::kDirect || schedules.choice == ScheduleChoice::kByHost;
  return all ? Exchange::Meeting::kAll : Exchange::Meeting::kSome;
}

// Adopted memory of a transport; credits the ledger.
class MappedOwner final : public device::Buffer::Owner {
 public:
  MappedOwner(device::MemoryLedger& ledger, device::Use use, int64_t bytes, std::unique_ptr<MappedMemory> memory)
      : ledger_(ledger), use_(use), bytes_(bytes), memory_(std::move(memory)) {
    ledger_.Charge(use_, bytes_);
  }
  ~MappedOwner() override { ledger_.Credit(use_, bytes_); }

 private:
  device::MemoryLedger& ledger_;
  device::Use use_;
  int64_t bytes_;
  std::unique_ptr<MappedMemory> memory_;
};

class HostCommunicator final : public Communicator {
 public:
  HostCommunicator(device::Device& device, std::unique_ptr<Transport> transport, const HostOptions& options,
                   std::unique_ptr<device::Stream> stream, HostMemoryView view, device::Buffer scratch)
      : Communicator(device, transport->rank(), transport->world_size()),
        transport_(std::move(transport)),
        options_(options),
        schedules_(SchedulesOf(*transport_, options)),
        timeout_(absl::ToChronoNanoseconds(options.timeout)),
        stream_(std::move(stream)),
        view_(std::move(view)),
        scratch_(std::move(scratch)),
        exchange_(*transport_, wire(),
                  {static_cast<std::byte*>(device.HostPointer(scratch_)), static_cast<size_t>(scratch_.bytes())},
                  PeersOf(rank(), world_size(), schedules_.choice), MeetingOf(schedules_)) {
    if (options_.watch != nullptr) options_.watch->Follow(device.shared_recorder());
    transport_->OnPeerFailed([this](int /*rank*/, const absl::Status& why) { NotePeerFailed(why); });
    if (world_size() > 1) {
      thread_ = std::thread([this] {
        device::OurThread::Begin(&this->device());
        while (Operation* const operation = queue_.Next()) RunToEnd(*operation);
      });
    }
  }

  ~HostCommunicator() override {
    LeaveFamily();
    if (queue_.Stop()) Abort(absl::FailedPreconditionError("the communicator was dropped with operations in flight"));
    if (thread_.joinable()) thread_.join();
    // Between operations nobody has told the peers yet: they are to hear why, not that this rank left.
    if (const absl::Status failed = status(); !failed.ok()) transport_->Cancel(failed);
    transport_.reset();  // Its callback ends here, before what it uses.
  }

 private:
  void DoStart(Operation& operation) override { queue_.Add(operation); }

  void DoHurry(uint64_t ticket, WaitKind kind) override {
    if (kind == WaitKind::kEvent) return queue_.HandOver(ticket);
    if (Operation* const operation = queue_.Claim(ticket); operation != nullptr) RunToEnd(*operation);
  }

  void DoAbort(const absl::Status& cause) override { transport_->Cancel(cause); }

  absl::StatusOr<std::unique_ptr<Communicator>> DoSplit(std::span<const int> members, int rank, uint64_t id) override {
    ZS_ASSIGN_OR_RETURN(std::unique_ptr<Transport> transport,
                        transport_->Split({.members = members, .rank = rank, .id = id, .timeout = options_.timeout}));
    return MakeHostCommunicator(device(), std::move(transport), options_);
  }

  absl::StatusOr<device::Buffer> DoAllocate(int64_t bytes, device::Use use, std::string_view what) override {
    ZS_ASSIGN_OR_RETURN(std::unique_ptr<MappedMemory> memory, transport_->Allocate(bytes));
    if (memory == nullptr) return device().Allocate(bytes, use, what);
    const absl::StatusOr<device::Array> array = device().Adopt(memory->data(), bytes);
    if (absl::IsUnimplemented(array.status())) return device().Allocate(bytes, use, what);  // Opaque memory is staged.
    ZS_RETURN_IF_ERROR(array.status());
    return device::Buffer(array->address(), bytes,
                          std::make_unique<MappedOwner>(device().ledger(), use, bytes, std::move(memory)));
  }

  // An operation under way is going to fail by it, and says what it was.
  void NotePeerFailed(const absl::Status& why) {
    peer_failure_.Keep(why);
    peer_failed_.store(true, std::memory_order_seq_cst);
    if (!queue_.busy()) Fail(why);
  }

  void RunToEnd(Operation& operation) {
    const absl::Status ended = Run(operation);
    queue_.Done();
    if (ended.ok() && peer_failed_.load(std::memory_order_seq_cst)) {
      Fail(peer_failure_.status());  // It had all that it needed of the peer.
    }
    Finish(operation, ended);  // The last that is done with it: its slot may be taken over.
  }

  absl::Status Run(Operation& operation) {
    for (const device::Event* event : operation.after()) stream_->Wait(*event);
    // Staged: the deadline begins when the inputs are there, as it does where Wait above held this thread.
    stream_->Synchronize();
    absl::Status ended = failed() ? status() : Carry(operation);
    if (!ended.ok()) {
      Fail(Explain(operation, ended));
      transport_->Cancel(status());
      transport_->Quiesce();
    }
    NoteEnded(operation);
    queue_.Ended();  // Whoever waits for its event may drop this communicator then.
    stream_->Record(*operation.end);
    return ended.ok() ? ended : status();
  }

  absl::Status Carry(const Operation& operation) {
    ZS_RETURN_IF_ERROR(view_.Bind(operation));
    if (options_.poison_outputs) view_.PoisonOutputs();  // Before peers, once told, write to them.
    OperationHeader header = MakeHeaderForDigest(operation, transport_->number(rank()), world_size());
    header.staged_bytes = view_.staged_bytes();
    header.schedules = static_cast<uint8_t>(schedules_.choice);
    exchange_.Tell(header, view_.call(), operation.traffic);
    // While the peers' headers are on their way:
    const Deadline begun{std::chrono::nanoseconds(NoteBegun(operation))};
    SetLabel(header, operation.label);
    transport_->Doing(header);
    ZS_RETURN_IF_ERROR(exchange_.Hear(header, begun + kTick + timeout_));
    if (!view_.staged()) return RunSchedule(exchange_, view_.call(), schedules_);
    return view_.RunStaged([this](const HostCall& call) { return RunSchedule(exchange_, call, schedules_); });
  }

  absl::Status Explain(const Operation& operation, const absl::Status& status) const {
    if (!this->status().ok()) return status;  // Not the first.
    const int64_t bytes = operation.count * SizeOf(operation.in_dtype);
    return absl::Status(status.code(), absl::StrCat("rank ", transport_->number(rank()), ", ", Describe(operation), ", ",
                                                    bytes, " bytes, over ", std::string(transport_->name()), ": ",
                                                    status.message(), WhoIsMissing(status)));
  }

  // "; rank 2 is missing ...", where ranks are watched and nobody has said so yet.
  std::string WhoIsMissing(const absl::Status& status) const {
    if (options_.watch == nullptr || !(absl::IsDeadlineExceeded(status) || absl::IsUnavailable(status))) return "";
    if (absl::StrContains(status.message(), kItsLastOperation)) return "";
    const std::string who = options_.watch->WhoIsMissing();
    return who.empty() ? "" : absl::StrCat("; ", who);
  }

  std::unique_ptr<Transport> transport_;
  const HostOptions options_;
  const Schedules schedules_;
  const std::chrono::nanoseconds timeout_;
  std::unique_ptr<device::Stream> stream_;
  HostMemoryView view_;
  device::Buffer scratch_;
  Exchange exchange_;

  OperationQueue queue_;
  static_assert(OperationQueue::kMost >= kRing);
  device::FirstError peer_failure_;
  std::atomic<bool> peer_failed_{false};  // in one order for all with queue_.busy()
  std::thread thread_;
};

int64_t ScratchBytes(int world_size, const HostOptions& options) {
  return world_size == 1 ? 0 : std::max(options.scratch_bytes, kLeastScratchPerRank * world_size);
}

absl::Status CheckOptions(const HostOptions& options) {
  if (options.timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("timeout ", absl::FormatDuration(options.timeout), "; it is more than 0"));
  }
  if (options.scratch_bytes < 0 || options.staging_bytes < 0) {
    return absl::InvalidArgumentError(absl::StrCat("scratch of ", options.scratch_bytes, " and staging of ",
                                                   options.staging_bytes, " bytes; neither is less than 0"));
  }
  return absl::OkStatus();
}

}  // namespace

BackendMemory HostCommunicatorMemory(const MemoryRequest& request, const HostOptions& options) {
  const int64_t staging = request.opaque ? HostMemoryView::StagingBytes(request.world_size, options.staging_bytes) : 0;
  return {.host_bytes = ScratchBytes(request.world_size, options) + staging};
}

absl::StatusOr<std::unique_ptr<Communicator>> MakeHostCommunicator(device::Device& device,
                                                                   std::unique_ptr<Transport> transport,
                                                                   const HostOptions& options) {
  ZS_RETURN_IF_ERROR(CheckOptions(options));
  const int world_size = transport->world_size();
  std::unique_ptr<device::Stream> stream = device.MakeStream(device::StreamKind::kCommunication);
  ZS_ASSIGN_OR_RETURN(HostMemoryView view,
                      HostMemoryView::Create(device, *stream, transport->rank(), world_size, options.staging_bytes));
  const int64_t scratch_bytes = ScratchBytes(world_size, options);
  ZS_ASSIGN_OR_RETURN(device::Buffer scratch,
                      device.AllocateHost(scratch_bytes, device::Use::kCommunication, "scratch of collectives"));
  device.ledger().Predict(device::Use::kCommunication, scratch_bytes);
  return std::make_unique<HostCommunicator>(device, std::move(transport), options, std::move(stream), std::move(view),
                                            std::move(scratch));
}

}  // namespace zeroshard::comm

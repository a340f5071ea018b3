#include "zeroshard/backends/nccl/watchdog.h"

#include <chrono>
#include <optional>

#include "absl/time/clock.h"
#include "zeroshard/device/device.h"

namespace zeroshard::backends {
namespace {

constexpr auto kTick = std::chrono::milliseconds(5);
constexpr auto kFullTick = std::chrono::microseconds(50);  // while a full ring holds its caller
constexpr absl::Duration kDrainWithin = absl::Seconds(1);  // of the stream, after an abort

}  // namespace

Watchdog::Watchdog(const WatchOptions& options)
    : options_(options),
      look_out_(options_.stream->device(), *options_.handle, *options_.notes, *options_.flights, options_.timeout),
      thread_([this] { Watch(); }) {}

Watchdog::~Watchdog() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

bool Watchdog::TakeLeave() {
  giving_up_ = true;
  if (!left_in_peace_ && status().ok()) look_out_.Leave(options_.leave_patience);
  // Nobody says that the others are here to destroy it together, but where all took leave.
  const bool in_peace = left_in_peace_ && status().ok();
  leave_ = !in_peace;
  wake_.notify_all();
  // The thread's, or the process ends.
  while (!options_.flights->empty() || (leave_ && !aborted_)) std::this_thread::sleep_for(kTick);
  return in_peace;
}

void Watchdog::GiveUp() {
  giving_up_ = true;
  wake_.notify_all();
}

void Watchdog::FailBy(const comm::OperationHeader& operation, const absl::Status& why) {
  if (!status().ok()) return;
  options_.watched->HasFailed(Explained(operation, options_.communicator->group(), why, options_.notes->watch()));
  wake_.notify_all();
}

// `all`: whatever the device says.
void Watchdog::Reap(bool all) {
  std::lock_guard<std::mutex> reap(reap_mutex_);
  while (status().ok() || aborted_) {
    comm::Operation* const operation = options_.flights->OldestPassed(all);
    if (operation == nullptr) return;
    const absl::Status ended = status();
    if (!ended.ok() && !aborted_) return;
    // On a broken device all events are done, and nothing is: the next look fails the communicator.
    if (ended.ok() && !options_.stream->device().status().ok()) return;
    if (ended.ok() && operation->kind == comm::OpKind::kFinalize) left_in_peace_ = true;
    options_.flights->DropOldest();
    options_.watched->HasEnded(*operation, ended);
  }
}

void Watchdog::Watch() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_) {
    wake_.wait_for(lock, options_.flights->full() ? std::chrono::nanoseconds(kFullTick) : kTick,
                   [this] { return stop_ || (!all_well() && !aborted_); });
    if (stop_) return;
    lock.unlock();
    Look();
    lock.lock();
  }
}

void Watchdog::Look() {
  Reap();
  if (all_well()) LookForTrouble();
  if (all_well()) return;
  if (!aborted_) {
    AbortComm();
    // A broken device does nothing more, and says so at once.
    if (!options_.stream->device().status().ok()) options_.stream->Synchronize();
  }
  Reap(/*all=*/absl::Now() > aborted_at_ + kDrainWithin);
}

void Watchdog::LookForTrouble() {
  const Trouble trouble = look_out_.Look(options_.flights->oldest());
  if (trouble.why.ok()) return;
  if (!trouble.in_flight) return options_.watched->HasFailed(trouble.why);
  // Unless it has ended meanwhile.
  Reap();
  const std::optional<Flights::Oldest> now = options_.flights->oldest();
  if (now && now->header.sequence == trouble.in_flight->sequence) FailBy(now->header, trouble.why);
}

void Watchdog::AbortComm() {
  giving_up_ = true;
  if (!status().ok()) look_out_.GiveUp(status());
  if (!options_.handle->Abort(options_.abort_patience)) {
    const absl::Status dropped = absl::AbortedError("a communicator is dropped, which other ranks may still use");
    LeaveProcess(status().ok() ? dropped : status(), options_.abort_patience);
  }
  aborted_at_ = absl::Now();
  aborted_ = true;
}

}  // namespace zeroshard::backends

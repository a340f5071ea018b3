// How a transfer begins, moves on, and ends.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "zeroshard/backends/ucx/ucx_errors.h"
#include "zeroshard/backends/ucx/ucx_transport.h"
#include "zeroshard/comm/rank_watch.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::backends {
namespace {

using comm::Channel;
using comm::Deadline;
using comm::Transfer;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// How a wait passes its time: it spins while a peer that runs on another core is likely to answer, about as long as a sleep and a
// wake take, then sleeps. Where ranks share cores it never spins.
constexpr std::chrono::nanoseconds kSpin = std::chrono::microseconds(30);
constexpr int kRounds = 16;
// Looks, one after the other, before a wait reads the clock: some microseconds, longer than a peer takes that answers at once.
constexpr int kLooks = 1000;
constexpr milliseconds kTurn{1};
// A sleeper moves UCX on now and then, for its keepalive.
constexpr milliseconds kMostSleep{200};

// How long, once a rank has failed or left, what it sent before may take to come.
constexpr milliseconds kAftermath{100};
// How long a broken connection waits for the peer's last word, which says more: it is here already, but nobody may have read it yet, where
// many programs share a core.
constexpr absl::Duration kLastWord = absl::Seconds(2);

// The transfer of mail that was put at once: it needs no record.
constexpr uint64_t kPut = ~uint64_t{0};

// Of a tag: its sender and channel; above them the receiver's number.
constexpr int kSenderBits = 24;

}  // namespace

// Of a message: what its receiver published, which strangers do not know, and who sends it.
ucp_tag_t UcxTransport::TagOf(int sender, int receiver, Channel channel) const {
  return numbers_[static_cast<size_t>(receiver)] << kSenderBits |
         (static_cast<ucp_tag_t>(sender) * comm::kChannels + static_cast<ucp_tag_t>(channel));
}

Transfer UcxTransport::Send(int peer, Channel channel, const void* data, int64_t bytes) {
  // Behind those that wait already, whoever they are for.
  if (ByMail(bytes) && waiting_.empty() && mail_->TryPut(peer, channel, data, bytes)) return {kPut};
  Record& record = NewRecord(/*sends=*/true, peer, channel, const_cast<void*>(data), bytes);
  if (record.by_mail) {
    waiting_.push_back(&record);
  } else {
    ++by_ucx_;
    worker_->Send(peer, TagOf(options_.rank, peer, channel), data, static_cast<size_t>(bytes), record.message);
  }
  return {record.id};
}

Transfer UcxTransport::Receive(int peer, Channel channel, void* data, int64_t bytes) {
  Record& record = NewRecord(/*sends=*/false, peer, channel, data, bytes);
  if (record.by_mail) {
    record.number = asked_[static_cast<size_t>(peer) * comm::kChannels + static_cast<size_t>(channel)]++;
  } else {
    ++by_ucx_;
    worker_->Receive(TagOf(peer, options_.rank, channel), data, static_cast<size_t>(bytes), record.message);
  }
  return {record.id};
}

UcxTransport::Record& UcxTransport::NewRecord(bool sends, int peer, Channel channel, void* data, int64_t bytes) {
  if (free_.empty()) {
    records_.push_back(std::make_unique<Record>());
    free_.reserve(records_.capacity());
    free_.push_back(records_.size());
    records_.back()->id = records_.size();
  }
  Record& record = *records_[free_.back() - 1];
  free_.pop_back();
  record.message = {};
  record.sends = sends;
  record.peer = peer;
  record.channel = channel;
  record.data = data;
  record.bytes = bytes;
  record.by_mail = ByMail(bytes);
  return record;
}

// Each box in order: one that has no room holds up none but its own.
void UcxTransport::PutWaitingMail() {
  for (size_t i = 0; i < waiting_.size(); ++i) {
    Record& record = *waiting_[i];
    const bool first =
        std::none_of(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(i), [&](const Record* before) {
          return before != nullptr && before->peer == record.peer && before->channel == record.channel;
        });
    if (!first || !mail_->TryPut(record.peer, record.channel, record.data, record.bytes)) continue;
    record.message.done = true;
    waiting_[i] = nullptr;
  }
  waiting_.erase(std::remove(waiting_.begin(), waiting_.end(), nullptr), waiting_.end());
  mail_->WakeReceivers();
}

// Moves on what is under way; gives whether the record is done.
bool UcxTransport::TryEnd(Record& record, int rounds) {
  if (!waiting_.empty()) PutWaitingMail();
  if (!record.by_mail) return worker_->Progress(record.message, rounds);
  int64_t bytes = 0;
  if (!record.message.done && !record.sends) {
    record.message.done = mail_->TryTake(record.peer, record.channel, record.number, record.data, record.bytes, bytes);
    record.message.bytes = static_cast<size_t>(bytes);
  }
  // A peer may need what UCX has of this rank's before it can send this.
  if (!record.message.done && by_ucx_ > 0) worker_->Progress(record.message, 1);
  return record.message.done;
}

absl::Status UcxTransport::Wait(Transfer transfer, Deadline deadline) {
  if (transfer.id == kPut) {
    mail_->WakeReceivers();
    return absl::OkStatus();
  }
  Record& record = *records_[transfer.id - 1];
  ZS_RETURN_IF_ERROR(Await(record, deadline));
  if (!record.by_mail) --by_ucx_;
  free_.push_back(transfer.id);
  return EndOf(record);
}

// Holds the caller until the record is done.
absl::Status UcxTransport::Await(Record& record, Deadline deadline) {
  if (mail_ != nullptr) mail_->WakeReceivers();
  if (TryEnd(record, kRounds)) return absl::OkStatus();
  for (int look = 0; spins_ && record.by_mail && look < kLooks; ++look) {
    if (TryEnd(record, 1)) return absl::OkStatus();
  }
  lines_->WaitsFor(record.peer);
  ZS_RETURN_IF_ERROR(AwaitSlowly(record, deadline));
  lines_->WaitsFor(-1);
  return absl::OkStatus();
}

absl::Status UcxTransport::AwaitSlowly(Record& record, Deadline deadline) {
  const Clock::time_point begin = Clock::now();
  while (!TryEnd(record, kRounds)) {
    if (stopped_.load(std::memory_order_acquire)) {
      if (!CauseOfCancel().ok() || !Drain(record, kAftermath)) return WhyStopped(record);
      break;
    }
    const ucs_status_t broken = worker_->failure(record.peer);
    const bool left = left_[static_cast<size_t>(record.peer)].load(std::memory_order_acquire);
    if (broken != UCS_OK || left) {
      if (!Drain(record, kAftermath))
        return Gone(record, FromUcx(broken, absl::StrCat("talking to rank ", number(record.peer))));
      break;
    }
    const Clock::time_point now = Clock::now();
    if (now >= deadline) return Late(record);
    if (spins_ && now - begin < kSpin) {
      __builtin_ia32_pause();
      continue;
    }
    Rest(record, std::min(std::chrono::ceil<milliseconds>(deadline - now), kMostSleep));
  }
  return absl::OkStatus();
}

// Sleeps until something may have happened, at the bell or at UCX's events; where both may call, it looks at the other in short
// turns.
void UcxTransport::Rest(Record& record, milliseconds most) {
  if (record.by_mail && by_ucx_ == 0 && waiting_.empty()) {
    const auto ready = [&] {
      const bool left = left_[static_cast<size_t>(record.peer)].load(std::memory_order_acquire);
      return left || stopped_.load(std::memory_order_acquire) || TryEnd(record, 1);
    };
    return mail_->Sleep(ready, most);
  }
  const bool both = record.by_mail || !waiting_.empty();
  worker_->Sleep(wake_.get(), both ? kTurn : most);
  ForgetWakes();
}

bool UcxTransport::Drain(Record& record, milliseconds most) {
  for (const Clock::time_point end = Clock::now() + most; Clock::now() < end && CauseOfCancel().ok();) {
    if (TryEnd(record, kRounds)) return true;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return TryEnd(record, kRounds);
}

// How a record that is done has ended.
absl::Status UcxTransport::EndOf(const Record& record) {
  const ucs_status_t status = record.message.status;
  const bool whole = record.sends || static_cast<int64_t>(record.message.bytes) == record.bytes;
  if (status == UCS_OK && whole) return absl::OkStatus();
  const bool longer = status == UCS_ERR_MESSAGE_TRUNCATED;
  if (!record.sends && (longer || status == UCS_OK)) {
    return absl::FailedPreconditionError(absl::StrCat("rank ", number(record.peer), " sends ",
                                                      longer ? std::string("more") : absl::StrCat(record.message.bytes),
                                                      " bytes where rank ", number(rank()), " receives ", record.bytes));
  }
  if (stopped_.load(std::memory_order_acquire)) return WhyStopped(record);
  return Gone(record, FromUcx(status, absl::StrCat(record.sends ? "sending " : "receiving ", record.bytes, " bytes")));
}

absl::Status UcxTransport::WhyStopped(const Record& record) {
  const absl::Status cause = GivenUp();
  return cause.ok() ? Gone(record, absl::OkStatus()) : cause;
}

absl::Status UcxTransport::Late(const Record& record) {
  const std::string why = lines_->WhyLate(record.peer);
  return absl::DeadlineExceededError(
      absl::StrCat(why, "; rank ", number(record.peer), record.sends ? " has not taken " : " has not sent ", record.bytes,
                   record.sends ? " bytes from rank " : " bytes for rank ", number(rank()), " in time"));
}

// The peer left, or the way to it is broken: its own words say more, where there are any.
absl::Status UcxTransport::Gone(const Record& record, const absl::Status& said) {
  const bool left = left_[static_cast<size_t>(record.peer)].load(std::memory_order_acquire);
  const absl::Status why = left ? absl::OkStatus() : lines_->WhyFailed(record.peer, kLastWord);
  if (!why.ok()) return said.ok() ? why : absl::Status(why.code(), absl::StrCat(why.message(), "; ", said.message()));
  const absl::Status cause = GivenUp();
  if (!cause.ok()) return cause;
  return absl::UnavailableError(absl::StrCat("rank ", number(record.peer), left ? " has left, and" : " is gone, and",
                                             record.sends ? " did not take " : " did not send ", record.bytes,
                                             record.sends ? " bytes from rank " : " bytes for rank ", number(rank()),
                                             said.ok() ? "" : "; ", said.message(), comm::kItsLastOperation,
                                             lines_->LastOf(record.peer)));
}

}  // namespace zeroshard::backends

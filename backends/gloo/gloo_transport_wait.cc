// How a transfer of GlooTransport ends, well or badly.

#include <algorithm>
#include <chrono>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "zeroshard/backends/gloo/gloo_errors.h"
#include "zeroshard/backends/gloo/gloo_transport.h"
#include "zeroshard/comm/rank_watch.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::backends {
namespace {

using comm::Deadline;
using comm::Transfer;

// How long a broken connection waits for the peer's last word, which says more: it is here already, but nobody may have read it yet, where
// many programs share a core.
constexpr absl::Duration kLastWord = absl::Seconds(2);

// Never negative: Gloo takes -1 for a default.
std::chrono::milliseconds TimeLeft(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return std::clamp(left, std::chrono::milliseconds(0), std::chrono::milliseconds(std::chrono::hours(24 * 365)));
}

}  // namespace

absl::Status GlooTransport::Wait(Transfer transfer, Deadline deadline) {
  const uint64_t index = (transfer.id & ((uint64_t{1} << kIndexBits) - 1)) - 1;
  Lane& lane = *lanes_[transfer.id >> kIndexBits];
  Entry& entry = lane.entries[index % kRing];
  if (!IsEager(lane, entry)) {
    ZS_RETURN_IF_ERROR(WaitEntry(lane, index, deadline));
  } else if (!entry.posted.ok() || entry.peers_bytes.load() >= 0) {
    return Explain(lane, entry, entry.posted, deadline);
  } else {
    entry.lingers = true;
  }
  // Entries are free again well before their turn comes.
  constexpr uint64_t kFree = kRing - comm::kMaxInFlight - 1;
  return index < kFree ? absl::OkStatus() : EndLingering(lane, index - kFree + 1, deadline);
}

absl::Status GlooTransport::WaitEntry(Lane& lane, uint64_t index, Deadline deadline) {
  Entry& entry = lane.entries[index % kRing];
  absl::Status cause = CauseOfCancel();
  if (!cause.ok()) return cause;
  if (!entry.posted.ok() || entry.peers_bytes.load() >= 0) return Explain(lane, entry, entry.posted, deadline);
  lines_->WaitsFor(lane.peer);
  const absl::StatusOr<bool> ended = WaitForGloo(lane, entry, TimeLeft(deadline));
  if (ended.ok() && *ended) lines_->WaitsFor(-1);
  // Gloo sends whatever the peer receives: a send may end well whose peer told meanwhile that it takes other bytes.
  if (!ended.ok() || entry.peers_bytes.load() >= 0) return Explain(lane, entry, ended.status(), deadline);
  return *ended ? absl::OkStatus() : WaitAfterFailure(lane, index, deadline);
}

// True: it has ended; false: it was woken up.
absl::StatusOr<bool> GlooTransport::WaitForGloo(Lane& lane, Entry& entry, std::chrono::milliseconds timeout) {
  bool ended = false;
  ZS_RETURN_IF_ERROR(CallGloo([&] {
    ended = lane.direction == Direction::kSend ? entry.buffer->waitSend(timeout) : entry.buffer->waitRecv(timeout);
  }));
  return ended;
}

// A wait was woken up: by Cancel, by lengths that differ, or because some rank failed. In that last case what the peer sent before
// may still be on its way, slower than the news.
absl::Status GlooTransport::WaitAfterFailure(Lane& lane, uint64_t index, Deadline deadline) {
  Entry& entry = lane.entries[index % kRing];
  GlooPair& pair = context_->pair(lane.peer);
  const Deadline end = std::min(deadline, std::chrono::steady_clock::now() + absl::ToChronoMilliseconds(kAftermath));
  for (bool last = false; !last;) {
    const bool differs = entry.peers_bytes.load() >= 0;
    last = !CauseOfCancel().ok() || differs || !pair.connected() || std::chrono::steady_clock::now() >= end;
    if (!differs && pair.ended(static_cast<int>(lane.channel), lane.direction) > index) {
      // Takes the end that Gloo keeps for the buffer, past what wakes it.
      absl::StatusOr<bool> ended = false;
      while (ended.ok() && !*ended) ended = WaitForGloo(lane, entry, TimeLeft(deadline));
      return ended.status();
    }
    if (!last) absl::SleepFor(absl::Microseconds(200));
  }
  return Explain(lane, entry, absl::OkStatus(), deadline);
}

// Sees to it that no eager send before number `before` lingers.
absl::Status GlooTransport::EndLingering(Lane& lane, uint64_t before, Deadline deadline) {
  for (; lane.lingering_from < before; ++lane.lingering_from) {
    Entry& entry = lane.entries[lane.lingering_from % kRing];
    if (!entry.lingers) continue;
    entry.lingers = false;
    ZS_RETURN_IF_ERROR(WaitEntry(lane, lane.lingering_from, deadline));
  }
  return absl::OkStatus();
}

absl::Status GlooTransport::Late(int peer, const std::string& what) {
  const std::string why = lines_->WhyLate(peer);
  return absl::DeadlineExceededError(absl::StrCat(why, "; rank ", number(peer), what));
}

// What a transfer that has not ended well is to be called, given what Gloo `said`.
absl::Status GlooTransport::Explain(const Lane& lane, const Entry& entry, const absl::Status& said, Deadline deadline) {
  absl::Status cause = CauseOfCancel();
  if (!cause.ok()) return cause;
  const bool sends = lane.direction == Direction::kSend;
  const int64_t peers_bytes = entry.peers_bytes.load();
  if (peers_bytes >= 0) {
    return absl::FailedPreconditionError(absl::StrCat("rank ", number(lane.peer), sends ? " receives " : " sends ",
                                                      peers_bytes, " bytes where rank ", number(rank()),
                                                      sends ? " sends " : " receives ", entry.bytes));
  }
  const bool late = std::chrono::steady_clock::now() >= deadline;
  absl::Status why = FirstFailure();
  if (why.ok()) why = lines_->WhyFailed(lane.peer, late ? absl::ZeroDuration() : kLastWord);
  if (!why.ok()) return said.ok() ? why : absl::Status(why.code(), absl::StrCat(why.message(), "; ", said.message()));
  const std::string transfer = absl::StrCat(entry.bytes, sends ? " bytes from rank " : " bytes for rank ", number(rank()));
  if (late) return Late(lane.peer, absl::StrCat(sends ? " has not taken " : " has not sent ", transfer, " in time"));
  cause = CauseOfCancel();
  if (!cause.ok()) return cause;
  const bool left = lines_->state(lane.peer) == PeerLines::State::kLeft;
  return absl::UnavailableError(absl::StrCat("rank ", number(lane.peer), left ? " has left, and" : " is gone, and",
                                             sends ? " did not take " : " did not send ", transfer, "; ", said.message(),
                                             comm::kItsLastOperation, lines_->LastOf(lane.peer)));
}

}  // namespace zeroshard::backends

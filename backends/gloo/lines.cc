#include "zeroshard/backends/gloo/lines.h"

#include "absl/strings/str_cat.h"
#include "zeroshard/comm/peer_words.h"
#include "zeroshard/comm/rank_watch.h"

namespace zeroshard::backends {
std::string Lines::WhyLate(int peer) {
  return comm::WhyLate(rank_, peer, static_cast<int>(ends_.size()), [this](int suspect) { return Testify(suspect); });
}

comm::Testimony Lines::Testify(int suspect) {
  Answer answer;
  if (state(suspect) == State::kHere && Ask(suspect, answer)) {
    return {.answers = true,
            .waits_for = answer.waits_for,
            .number = Number(suspect),
            .words = absl::StrCat("rank ", Number(suspect), " answers, and ", comm::PeerWords(answer.doing))};
  }
  const absl::Status why = WhyFailed(suspect, absl::ZeroDuration());
  if (!why.ok()) return {.words = std::string(why.message())};
  const bool left = state(suspect) == State::kLeft;
  return {.words = absl::StrCat("rank ", Number(suspect),
                                left ? " has left" : " does not answer: its process is stopped, or cut off",
                                watched_ ? "" : absl::StrCat(comm::kItsLastOperation, LastOf(suspect)))};
}

Lines::State Lines::state(int peer) const {
  const std::lock_guard<std::mutex> lock(ends_mutex_);
  return ends_[static_cast<size_t>(peer)].state;
}

absl::Status Lines::WhyFailed(int peer, absl::Duration patience) const {
  const End& end = ends_[static_cast<size_t>(peer)];
  std::unique_lock<std::mutex> lock(ends_mutex_);
  ended_.wait_for(lock, absl::ToChronoMilliseconds(patience), [&] { return end.state != State::kHere; });
  return end.why;
}

void Lines::Conclude(int peer, State state, const absl::Status& why) {
  {
    const std::lock_guard<std::mutex> lock(ends_mutex_);
    ends_[static_cast<size_t>(peer)] = {.state = state, .why = why};
    ended_.notify_all();
  }
  heard_(peer, why);
}

// What a peer may say it gave up for; anything else is a peer that is gone, as far as others are concerned.
absl::Status Lines::GaveUp(int peer, int32_t code, std::string_view words) const {
  const bool disagrees = code == static_cast<int32_t>(absl::StatusCode::kFailedPrecondition);
  return absl::Status(disagrees ? absl::StatusCode::kFailedPrecondition : absl::StatusCode::kUnavailable,
                      absl::StrCat("rank ", Number(peer), " gave up: ", comm::PeerWords(words)));
}

absl::Status Lines::Gone(int peer, std::string_view how) const {
  return absl::UnavailableError(
      absl::StrCat("rank ", Number(peer), " is gone: its process ended, or it left without a word (",
                   absl::string_view(how.data(), how.size()), ")", comm::kItsLastOperation, LastOf(peer)));
}

std::string Lines::LastIn(const comm::OperationHeader& doing, int elsewhere) {
  return absl::StrCat(doing.magic == 0 ? "has begun no operation" : absl::StrCat("was last in ", comm::Describe(doing)),
                      comm::DescribeElsewhere(elsewhere));
}

}  // namespace zeroshard::backends

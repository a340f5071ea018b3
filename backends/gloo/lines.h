// Lines: what ranks tell each other about themselves, beside the data: that they take leave, or that they gave up, and why;
// and, asked by one that has waited too long, what they do and for whom they wait.
//
// Whatever carries them (peer_lines.h, backends/ucx/mapped_lines.h): a peer whose process ends without a word is known to be
// gone within tenths of a second, and one that is stopped answers nothing.
//
// Example:
//   lines->GiveUp(absl::FailedPreconditionError("rank 2: ..."));    // all peers are told
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "zeroshard/backends/gloo/peer_connections.h"
#include "zeroshard/comm/late_chain.h"
#include "zeroshard/comm/operation_header.h"
#include "zeroshard/comm/wait_board.h"

namespace zeroshard::backends {

class Lines {
 public:
  enum class State : uint8_t { kHere, kLeft, kFailed };
  // On the listening thread: `peer` failed (kUnavailable its process is gone; or as it gave up, with its words) or left (OK).
  using Heard = std::function<void(int peer, const absl::Status& why)>;

  virtual ~Lines() = default;
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

  // Tell all peers. Never block; only the first word of this rank counts.
  virtual void TakeLeave() = 0;
  virtual void GiveUp(const absl::Status& why) = 0;

  // What this rank does, and for which peer it waits (-1: none), for those that ask. From any thread; allocate nothing.
  virtual void Doing(const comm::OperationHeader& operation) = 0;
  // `peers` have begun the same.
  virtual void Met(std::span<const int> /*peers*/) {}
  void WaitsFor(int peer) {
    place_.Set(peer < 0 ? -1 : Number(peer));
    NoteWait(peer);
  }

  // Why `peer` is late, as far as it and those for whom it waits in turn can say: "rank 1 does not answer; rank 2 waits for
  // it". Holds the caller for some tenths of a second.
  std::string WhyLate(int peer);

  State state(int peer) const;
  // Why `peer` failed; OK where it has not. Waits up to `patience` while it is kHere: its last word may be on its way.
  absl::Status WhyFailed(int peer, absl::Duration patience) const;
  // What `peer` began last in this group, as far as this rank knows: "all-reduce #7 (...)", "none".
  virtual std::string LastOf(int peer) const = 0;

 protected:
  // How long a peer may take to answer: its listening thread does nothing else. Half of it was too little where twenty programs shared
  // each core.
  static constexpr absl::Duration kPatience = absl::Seconds(1);

  // What a peer says when it is asked.
  struct Answer {
    int waits_for = -1;
    std::string doing;  // "was last in all-reduce #7 (...); it waits for rank 3 in another group"
  };

  Lines(const ConnectOptions& options, Heard heard)
      : rank_(options.rank),
        watched_(options.store != nullptr && options.store->watch() != nullptr),
        numbers_(options.numbers),
        place_(options.waits),
        heard_(std::move(heard)),
        ends_(static_cast<size_t>(options.world_size)) {}

  virtual void NoteWait(int peer) = 0;
  // Whom this rank waits for in another group; -1: nobody.
  int Elsewhere() const { return place_.Elsewhere(); }
  // False where `peer` does not answer in kPatience.
  virtual bool Ask(int peer, Answer& answer) = 0;
  void Conclude(int peer, State state, const absl::Status& why);
  // Of a peer that gave up, with a code and words that may be anything.
  absl::Status GaveUp(int peer, int32_t code, std::string_view words) const;
  absl::Status Gone(int peer, std::string_view how) const;
  // What messages call a rank.
  int Number(int peer) const { return numbers_.empty() ? peer : numbers_[static_cast<size_t>(peer)]; }
  // Of an answer; a header with no magic: none was begun.
  static std::string LastIn(const comm::OperationHeader& doing, int elsewhere);

  const int rank_;

 private:
  struct End {
    State state = State::kHere;
    absl::Status why;
  };
  comm::Testimony Testify(int suspect);

  const bool watched_;              // the store says who is silent, and what it did last
  const std::vector<int> numbers_;  // see ConnectOptions
  comm::WaitPlace place_;
  const Heard heard_;
  mutable std::mutex ends_mutex_;
  mutable std::condition_variable ended_;
  std::vector<End> ends_;  // [world_size]
};

}  // namespace zeroshard::backends

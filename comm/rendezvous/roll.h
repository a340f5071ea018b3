// Roll: who of a job has come, who was heard of when, and what each did last. Rank 0's knowledge, without its network.
//
// Example:
//   Roll roll(/*world_size=*/4, /*silence=*/absl::Seconds(3));
//   roll.Come(2);
//   roll.Beat(2, last_operation, now);
//   roll.Missing(now);        // "rank 2 is missing (silent for 3.2 s); its last operation was all-gather #41 'block.3' (...)"
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "zeroshard/comm/last_operation.h"

namespace zeroshard::comm {

class Roll {
 public:
  enum class State { kNotCome, kHere, kLeft, kGone };

  // A rank that is here and was not heard of for `silence`, since all came, is missing.
  Roll(int world_size, absl::Duration silence) : silence_(silence), ranks_(static_cast<size_t>(world_size)) {}

  int world_size() const { return static_cast<int>(ranks_.size()); }
  State state(int rank) const { return At(rank).state; }

  // Ranks come once. Errors: kAlreadyExists two processes say that they are this rank.
  absl::Status Come(int rank, absl::Time now);
  void Beat(int rank, const LastOperation& last, absl::Time now);
  void Leave(int rank, absl::Time now) { Depart(rank, State::kLeft, now); }
  // Its connection ended without a farewell.
  void Lose(int rank, absl::Time now) { Depart(rank, State::kGone, now); }

  bool AllCame() const { return NotCome().empty(); }
  std::vector<int> NotCome() const;
  // Whether any rank but `self` is here and not silent.
  bool OthersHere(int self, absl::Time now) const;

  // "ranks 1, 3 have not come; rank 2 is missing ..."; empty where all are well. At most eight ranks are told of in full.
  std::string Missing(absl::Time now) const;

 private:
  struct Rank {
    State state = State::kNotCome;
    absl::Time heard = absl::InfinitePast();  // of it, or of its end
    LastOperation last;
  };

  const Rank& At(int rank) const { return ranks_[static_cast<size_t>(rank)]; }
  Rank& At(int rank) { return ranks_[static_cast<size_t>(rank)]; }
  void Depart(int rank, State state, absl::Time now);

  absl::Duration silence_;
  std::vector<Rank> ranks_;
};

// "rank 3", "ranks 1, 3".
std::string RankList(const std::vector<int>& ranks);

}  // namespace zeroshard::comm

#include "zeroshard/comm/rendezvous/roll.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "zeroshard/comm/rank_watch.h"

namespace zeroshard::comm {
namespace {

constexpr int kToldInFull = 8;

std::string Seconds(absl::Duration duration) { return absl::StrFormat("%.1fs", absl::ToDoubleSeconds(duration)); }

}  // namespace

std::string RankList(const std::vector<int>& ranks) {
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", absl::StrJoin(ranks, ", "));
}

absl::Status Roll::Come(int rank, absl::Time now) {
  Rank& comer = At(rank);
  if (comer.state != State::kNotCome) {
    return absl::AlreadyExistsError(absl::StrCat("two processes say that they are rank ", rank));
  }
  comer.state = State::kHere;
  comer.heard = now;
  // Until all are there nobody beats: those that came first are not silent.
  if (AllCame()) {
    for (Rank& each : ranks_) each.heard = std::max(each.heard, now);
  }
  return absl::OkStatus();
}

void Roll::Beat(int rank, const LastOperation& last, absl::Time now) {
  At(rank).heard = now;
  At(rank).last = last;
}

void Roll::Depart(int rank, State state, absl::Time now) {
  Rank& departing = At(rank);
  if (departing.state == State::kLeft) return;
  departing.state = state;
  departing.heard = now;
}

std::vector<int> Roll::NotCome() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < world_size(); ++rank) {
    if (At(rank).state == State::kNotCome) ranks.push_back(rank);
  }
  return ranks;
}

bool Roll::OthersHere(int self, absl::Time now) const {
  for (int rank = 0; rank < world_size(); ++rank) {
    if (rank != self && At(rank).state == State::kHere && now - At(rank).heard < silence_) return true;
  }
  return false;
}

std::string Roll::Missing(absl::Time now) const {
  std::vector<std::string> told;
  const std::vector<int> not_come = NotCome();
  if (!not_come.empty())
    told.push_back(absl::StrCat(RankList(not_come), not_come.size() == 1 ? " has" : " have", " not come"));
  int more = 0;
  for (int rank = 0; rank < world_size(); ++rank) {
    const Rank& missing = At(rank);
    const bool silent = not_come.empty() && missing.state == State::kHere && now - missing.heard >= silence_;
    if (missing.state != State::kGone && !silent) continue;
    if (static_cast<int>(told.size()) >= kToldInFull) {
      ++more;
      continue;
    }
    told.push_back(absl::StrCat("rank ", rank, " is missing (", silent ? "silent for " : "its process or its network ended ",
                                Seconds(now - missing.heard), silent ? "" : " ago", ")", kItsLastOperation,
                                Describe(missing.last), missing.last.ended ? ", which it had ended" : ""));
  }
  if (more > 0) told.push_back(absl::StrCat(more, " more are missing"));
  return absl::StrJoin(told, "; ");
}

}  // namespace zeroshard::comm

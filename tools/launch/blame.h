// Which rank of a job that failed is quoted: the one that failed for a reason of its own, before those that only noticed.
//
// Ranks that lost a peer end alike (kExitPeer), and the first to end is seldom the guilty one: it says whom it blames ("rank 1 gave up: ...",
// "rank 1 is gone", "rank 1 is missing"), and that rank's own words, where it has any, say why. So blame is followed to its end.
//
// Example:
//   std::vector<RankEnd> ends = {{.rank = 0, .noticed = true, .words = "rank 0, barrier #4: rank 1 gave up: ..."},
//                                {.rank = 1, .noticed = true, .words = "rank 1, barrier #4: ranks disagree: ..."}};
//   ends[*RankToQuote(ends)].rank;  // 1
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zeroshard::tools {

// How a rank ended that did not end well.
struct RankEnd {
  int rank = 0;
  bool noticed = false;    // as those do that lost a peer, or were told of a failure
  std::string words = {};  // why, as it says itself; may be empty
};

// Whom a rank's words blame before all others; none where they blame nobody, or the rank itself.
std::optional<int> WhomBlames(int rank, std::string_view words);

// `ends` in order of ending; an index of them. The first that noticed nothing; else, from the first that says anything on, the end of the
// chain of blame. Where all blame each other in a ring, the first. None of none.
std::optional<size_t> RankToQuote(const std::vector<RankEnd>& ends);

}  // namespace zeroshard::tools

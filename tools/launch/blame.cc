#include "zeroshard/tools/launch/blame.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <system_error>

namespace zeroshard::tools {
namespace {

// As backends and the rendezvous say it of a peer.
constexpr std::string_view kRank = "rank ";
constexpr std::string_view kFailings[] = {" gave up", " is gone", " is missing", " has left", " does not answer"};

bool Fails(std::string_view said) {
  return std::any_of(std::begin(kFailings), std::end(kFailings),
                     [said](std::string_view failing) { return said.starts_with(failing); });
}

std::optional<size_t> IndexOf(const std::vector<RankEnd>& ends, int rank) {
  const auto found = std::find_if(ends.begin(), ends.end(), [rank](const RankEnd& end) { return end.rank == rank; });
  if (found == ends.end()) return std::nullopt;
  return static_cast<size_t>(found - ends.begin());
}

// From `first` on; back at a rank that was come past, `first`.
size_t FollowBlame(const std::vector<RankEnd>& ends, size_t first) {
  std::vector<bool> seen(ends.size(), false);
  for (size_t at = first;;) {
    seen[at] = true;
    const std::optional<int> blamed = WhomBlames(ends[at].rank, ends[at].words);
    const std::optional<size_t> next = blamed ? IndexOf(ends, *blamed) : std::nullopt;
    if (!next || ends[*next].words.empty()) return at;
    if (seen[*next]) return first;
    at = *next;
  }
}

}  // namespace

std::optional<int> WhomBlames(int rank, std::string_view words) {
  for (size_t at = words.find(kRank); at != std::string_view::npos; at = words.find(kRank, at + 1)) {
    const std::string_view rest = words.substr(at + kRank.size());
    int blamed = -1;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), blamed);
    if (error != std::errc() || !Fails(rest.substr(static_cast<size_t>(end - rest.data())))) continue;
    return blamed == rank ? std::nullopt : std::optional<int>(blamed);
  }
  return std::nullopt;
}

std::optional<size_t> RankToQuote(const std::vector<RankEnd>& ends) {
  if (ends.empty()) return std::nullopt;
  const auto own = std::find_if(ends.begin(), ends.end(), [](const RankEnd& end) { return !end.noticed; });
  if (own != ends.end()) return static_cast<size_t>(own - ends.begin());
  const auto says = std::find_if(ends.begin(), ends.end(), [](const RankEnd& end) { return !end.words.empty(); });
  return says == ends.end() ? 0 : FollowBlame(ends, static_cast<size_t>(says - ends.begin()));
}

}  // namespace zeroshard::tools

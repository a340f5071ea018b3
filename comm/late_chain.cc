#include "zeroshard/comm/late_chain.h"

#include <vector>

#include "absl/strings/str_cat.h"

namespace zeroshard::comm {
namespace {

// The words, and "; ", of the first of those that were not asked yet who does not answer; empty where all do.
std::string WhoIsSilent(const std::vector<bool>& asked, absl::FunctionRef<Testimony(int)> ask) {
  for (size_t rank = 0; rank < asked.size(); ++rank) {
    if (asked[rank]) continue;
    const Testimony says = ask(static_cast<int>(rank));
    if (!says.answers) return says.words + "; ";
  }
  return "";
}

}  // namespace

std::string WhyLate(int rank, int peer, int world_size, absl::FunctionRef<Testimony(int)> ask) {
  std::string chain;
  std::vector<bool> seen(static_cast<size_t>(world_size), false);
  for (int suspect = peer;;) {
    seen[static_cast<size_t>(suspect)] = true;
    const Testimony says = ask(suspect);
    const int next = says.waits_for;
    if (!says.answers || next < 0 || next >= world_size) return absl::StrCat(says.words, chain);
    if (next == rank || seen[static_cast<size_t>(next)]) {
      seen[static_cast<size_t>(rank)] = true;
      return absl::StrCat(WhoIsSilent(seen, ask), says.words, chain);
    }
    chain = absl::StrCat("; rank ", says.number < 0 ? suspect : says.number, " waits for it", chain);
    suspect = next;
  }
}

}  // namespace zeroshard::comm

#include "zeroshard/comm/late_chain.h"

#include <vector>

#include "absl/strings/str_cat.h"

namespace zeroshard::comm {

std::string WhyLate(int rank, int peer, int world_size, absl::FunctionRef<Testimony(int)> ask) {
  std::string chain;
  std::vector<bool> seen(static_cast<size_t>(world_size), false);
  for (int suspect = peer;;) {
    seen[static_cast<size_t>(suspect)] = true;
    const Testimony says = ask(suspect);
    const int next = says.waits_for;
    if (!says.answers || next < 0 || next >= world_size || next == rank || seen[static_cast<size_t>(next)]) {
      return absl::StrCat(says.words, chain);
    }
    chain = absl::StrCat("; rank ", says.number < 0 ? suspect : says.number, " waits for it", chain);
    suspect = next;
  }
}

}  // namespace zeroshard::comm

// Ports at which nobody listens here now.
//
// Example:
//   const PortRange range = FreePorts(8, /*from=*/21000);
#pragma once

#include <utility>
#include <vector>

#include "zeroshard/comm/port_range.h"

namespace zeroshard::comm::testing {

// So many next to each other, from a multiple of `count` behind `from` on: suites that run at a time begin elsewhere.
inline PortRange FreePorts(int count, int from) {
  for (int first = from; first < 60000; first += count) {
    std::vector<Socket> all;
    for (int port = first; port < first + count; ++port) {
      auto one = ListenWithin("127.0.0.1", {.first = port, .last = port});
      if (one.ok()) all.push_back(*std::move(one));
    }
    if (static_cast<int>(all.size()) == count) return {.first = first, .last = first + count - 1};
  }
  return {};
}

}  // namespace zeroshard::comm::testing

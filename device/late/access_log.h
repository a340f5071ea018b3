// The accesses to one allocation that a later one could still race with.
//
// Example:
//   log.Add({.begin = 0, .end = 64, .stream = 1, .sequence = 7, .writes = true, .name = "fill"}, clock_of_stream_1,
//   "moments");
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "zeroshard/device/late/clock.h"

namespace zeroshard::device {

// What operation number `sequence` of a stream does to the bytes [begin, end) of an allocation.
struct LoggedAccess {
  int64_t begin, end;
  int stream;
  uint64_t sequence;
  bool writes;
  const char* name;
};

class AccessLog {
 public:
  // Ends the process if `access` and an earlier one overlap, one of them writes, and `known`, the clock of the access's
  // stream, does not order them. Keeps `access`, and drops what it covers.
  void Add(const LoggedAccess& access, const Clock& known, std::string_view what);

 private:
  void DropCovered(const LoggedAccess& by);

  std::vector<LoggedAccess> kept_;
  std::vector<LoggedAccess> scratch_;
};

}  // namespace zeroshard::device

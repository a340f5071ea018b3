#include "zeroshard/device/late/access_log.h"

#include <string>

#include "absl/strings/str_format.h"
#include "zeroshard/device/late/end_test.h"

namespace zeroshard::device {
namespace {

bool Overlap(const LoggedAccess& a, const LoggedAccess& b) { return a.begin < b.end && b.begin < a.end; }

std::string Describe(const LoggedAccess& a) {
  return absl::StrFormat("\"%s\" (operation %d of stream %d) %s bytes [%d, %d)", a.name, a.sequence, a.stream,
                         a.writes ? "writes" : "reads", a.begin, a.end);
}

}  // namespace

void AccessLog::Add(const LoggedAccess& access, const Clock& known, std::string_view what) {
  for (const LoggedAccess& earlier : kept_) {
    if (!Overlap(earlier, access) || !(earlier.writes || access.writes)) continue;
    if (earlier.stream == access.stream || known.Knows(earlier.stream, earlier.sequence)) continue;
    EndTest(absl::StrFormat("race on \"%s\": %s, %s, and nothing orders them", std::string(what), Describe(access),
                            Describe(earlier)));
  }
  DropCovered(access);
  kept_.push_back(access);
}

// A write is ordered after all that it overlaps, so whoever is ordered after the write is ordered after them; a read only
// stands in for earlier reads of its own stream.
void AccessLog::DropCovered(const LoggedAccess& by) {
  scratch_.clear();
  for (const LoggedAccess& old : kept_) {
    const bool covered = by.writes || (!old.writes && old.stream == by.stream);
    if (!covered || !Overlap(old, by)) {
      scratch_.push_back(old);
      continue;
    }
    if (old.begin < by.begin) {
      scratch_.push_back(old);
      scratch_.back().end = by.begin;
    }
    if (old.end > by.end) {
      scratch_.push_back(old);
      scratch_.back().begin = by.end;
    }
  }
  kept_.swap(scratch_);
}

}  // namespace zeroshard::device

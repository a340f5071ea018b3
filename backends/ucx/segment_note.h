// SegmentNote: what lets the next start take back shared memory of a process that was killed while UCX made it.
//
// UCX makes a System V segment, maps it, and marks it for removal: from then on the system takes it back with the last process that has
// it. One that is made and not mapped yet has nothing to tell it from another program's. So a note lies in the user's own folder
// while UCX makes segments: an empty file, whose name says which process it is, of which start, and when. A segment is a dead rank's
// where such a note is left, its process is no more, and the segment is private, this user's, in nobody's memory, and was made by a process of
// that number in the seconds after the note.
//
// Example:
//   RemoveDeadSegments();
//   const SegmentNote note;
//   ucp_worker_create(...);
#pragma once

#include <string>

namespace zeroshard::backends {

// Where no folder can be written there is none, and what it is for is not done.
class SegmentNote {
 public:
  SegmentNote();
  ~SegmentNote();
  SegmentNote(const SegmentNote&) = delete;
  SegmentNote& operator=(const SegmentNote&) = delete;

 private:
  std::string path_;  // empty: none
};

// Gives how many there were.
int RemoveDeadSegments();

}  // namespace zeroshard::backends

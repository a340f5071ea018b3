// RankWatch: who of a job is missing, and what each rank did last: for the message when an operation does not end.
//
// Example:
//   RankWatch* const watch = store.watch();      // null where the store keeps none
//   NoteOperation(operation, last);
//   watch->Note(last);
//   ...
//   watch->WhoIsMissing();      // "rank 2 is missing (silent for 3 s); its last operation was all-gather #41 'block.3' (...)"
#pragma once

#include <string>

#include "zeroshard/comm/last_operation.h"

namespace zeroshard::comm {

// What WhoIsMissing's answer holds where it names a rank that was here.
inline constexpr char kItsLastOperation[] = "; its last operation was ";

class RankWatch {
 public:
  virtual ~RankWatch() = default;

  // This rank has begun `last`; the others will be told if it is missed. Allocates nothing, waits for nobody. Thread-safe.
  virtual void Note(const LastOperation& last) = 0;
  // The operation with that LastOperation::id has ended here.
  virtual void NoteEnd(uint64_t id) = 0;

  // Which ranks are gone or silent, and the last operation of each; empty where all are well. Takes two seconds at the most.
  virtual std::string WhoIsMissing() = 0;
};

}  // namespace zeroshard::comm

// RankWatch: who of a job is missing, and what each rank did last: for the message when an operation does not end.
//
// Example:
//   RankWatch* const watch = store.watch();      // null where the store keeps none
//   watch->Follow(device.shared_recorder());
//   ...
//   watch->WhoIsMissing();      // "rank 2 is missing (silent for 3 s); its last operation was all-gather #41 'block.3' (...)"
#pragma once

#include <memory>
#include <string>

#include "zeroshard/device/recorder.h"

namespace zeroshard::comm {

// What WhoIsMissing's answer holds where it names a rank that was here.
inline constexpr char kItsLastOperation[] = "; its last operation was ";

class RankWatch {
 public:
  virtual ~RankWatch() = default;

  // From now on the others are told, if this rank is missed, what its recorder holds as its last operation. Thread-safe.
  virtual void Follow(std::shared_ptr<const device::Recorder> recorder) = 0;

  // Which ranks are gone or silent, and the last operation of each; empty where all are well. Takes two seconds at the most.
  virtual std::string WhoIsMissing() = 0;
};

}  // namespace zeroshard::comm
